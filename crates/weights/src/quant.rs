//! Quantisation formats, host side: one file each, listed in the generated `registry.rs`.
//!
//! A format says how its weights lie in a file, decodes them ([`foretoken_core::QuantFormat::dequantize`]) and
//! rewrites them to the words the GPU reads ([`foretoken_core::QuantFormat::repack`]).

mod registry;

use foretoken_core::Format;

pub use registry::FORMATS;

/// The format with this stem (`q4_1`), if this build reads it.
pub fn format_by_name(name: &str) -> Option<Format> {
    FORMATS.iter().copied().find(|format| format.name() == name)
}

/// The format with this type number in a GGUF file, if this build reads it.
pub fn format_by_ggml_type(ggml_type: u32) -> Option<Format> {
    FORMATS
        .iter()
        .copied()
        .find(|format| format.ggml_type() == ggml_type)
}

/// Little-endian words of bytes whose number is a multiple of four.
fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

/// The value of two little-endian bytes that hold an IEEE half.
fn half(bytes: &[u8]) -> f32 {
    half::f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

/// The bits of two little-endian bytes, in the low half of a word.
fn half_bits(bytes: &[u8]) -> u32 {
    u32::from(u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// Panics unless a caller of `dequantize` gave whole blocks and room for exactly their weights.
fn assert_blocks(format: Format, bytes: &[u8], out: &[f32]) {
    let (len, size) = (format.block_len(), format.block_bytes());
    assert!(
        bytes.len().is_multiple_of(size) && out.len() == bytes.len() / size * len,
        "{}: {} bytes do not hold {} weights",
        format.name(),
        bytes.len(),
        out.len()
    );
}

/// The blocks of values that a format is to encode, each with whether all of it is finite. Panics unless they are whole.
fn blocks_to_encode(format: Format, values: &[f32]) -> impl Iterator<Item = (&[f32], bool)> {
    let (name, len) = (format.name(), format.block_len());
    assert!(
        values.len().is_multiple_of(len),
        "{name}: {} values are no whole blocks",
        values.len()
    );
    let blocks = values.chunks_exact(len);
    blocks.map(|block| (block, block.iter().all(|value| value.is_finite())))
}

#[cfg(test)]
mod lossless {
    use foretoken_core::Format;

    /// Repacks 2,000 units of seeded random bytes and checks that `unpack`, which reads device
    /// words as a kernel does, gives the weights of `dequantize` bit for bit.
    pub fn assert_repack_is_lossless(format: Format, unpack: impl Fn(&[u32], &[u32]) -> Vec<f32>) {
        let weights = format.unit_len();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..2_000 {
            let bytes: Vec<u8> = (0..weights / format.block_len() * format.block_bytes())
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect();
            let mut expected = vec![0.0; weights];
            format.dequantize(&bytes, &mut expected);
            let mut quants = vec![0; 4 * format.quant_vec4s()];
            let mut scales = vec![0; format.scale_words()];
            format.repack(&bytes, &mut quants, &mut scales);
            let found = unpack(&quants, &scales);
            assert_eq!(found.len(), weights);
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let both_nan = found.is_nan() && expected.is_nan();
                assert!(
                    both_nan || found.to_bits() == expected.to_bits(),
                    "{}: [{at}] {found} for {expected}",
                    format.name()
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use foretoken_core::WEIGHTS_PER_BLOCK;

    use super::*;

    #[test]
    fn names_and_type_numbers_are_unique_and_found() {
        assert!(FORMATS.len() >= 6);
        for format in FORMATS {
            assert_eq!(format_by_name(format.name()), Some(*format));
            assert_eq!(format_by_ggml_type(format.ggml_type()), Some(*format));
        }
        assert_eq!(format_by_name("Q4_0"), None);
        assert_eq!(format_by_ggml_type(u32::MAX), None);
    }

    #[test]
    fn block_sizes_agree_with_the_table_of_ggml_types() {
        for format in FORMATS {
            let stored = crate::StoredType(format.ggml_type());
            assert_eq!(stored.name().to_lowercase(), format.name());
            assert_eq!(
                stored.block(),
                Some((format.block_len() as u64, format.block_bytes() as u64)),
                "{}",
                format.name()
            );
        }
    }

    #[test]
    fn weights_take_little_more_on_the_device_than_in_the_file() {
        for format in FORMATS {
            let name = format.name();
            assert!(
                format.unit_len().is_multiple_of(WEIGHTS_PER_BLOCK),
                "{name}"
            );
            let stored = format.unit_len() / format.block_len() * format.block_bytes();
            let (quants, scales) = (16 * format.quant_vec4s(), 4 * format.scale_words());
            // A slab is as large as a binding holds quants.
            assert!(scales <= quants, "{name}: more scales than quants");
            let held = quants + scales;
            assert!(
                held * 20 <= stored * 23,
                "{name}: {held} bytes for {stored}"
            );
        }
    }

    #[test]
    fn repack_writes_every_word_whatever_was_there() {
        for format in FORMATS {
            let weights = format.unit_len();
            let bytes: Vec<u8> = (0..weights / format.block_len() * format.block_bytes())
                .map(|i| (i * 37 + 11) as u8)
                .collect();
            let run = |fill: u32| {
                let mut quants = vec![fill; 4 * format.quant_vec4s()];
                let mut scales = vec![fill; format.scale_words()];
                format.repack(&bytes, &mut quants, &mut scales);
                (quants, scales)
            };
            assert_eq!(run(0), run(u32::MAX), "{}", format.name());
        }
    }

    #[test]
    #[should_panic(expected = "q4_0: 17 bytes")]
    fn a_cut_block_is_a_broken_invariant() {
        format_by_name("q4_0")
            .unwrap()
            .dequantize(&[0; 17], &mut [0.0; 32]);
    }
}
