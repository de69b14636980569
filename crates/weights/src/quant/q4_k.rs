//! `q4_k`: 256 weights as halves `d` and `dmin`, 12 bytes of 6-bit scales and minima of 32 weights each, and 128 of nibbles;
//! weight = d · scale · quant − dmin · minimum.

use foretoken_core::QuantFormat;

use crate::bits::{nibbles_in_order, scale_words, scales_and_minima};
use crate::quant::{assert_blocks, half};

/// 4-bit quants in blocks of 256, with a scale and a minimum for every 32.
#[derive(Debug)]
#[expect(non_camel_case_types, reason = "as ggml spells it")]
pub struct Q4_K;

impl QuantFormat for Q4_K {
    fn name(&self) -> &'static str {
        "q4_k"
    }
    fn ggml_type(&self) -> u32 {
        12
    }
    fn block_len(&self) -> usize {
        256
    }
    fn block_bytes(&self) -> usize {
        144
    }

    fn dequantize(&self, bytes: &[u8], out: &mut [f32]) {
        assert_blocks(&Q4_K, bytes, out);
        for (block, out) in bytes.chunks_exact(144).zip(out.chunks_exact_mut(256)) {
            let (d, minimum) = (half(block), half(&block[2..]));
            let scales = scales_and_minima(&block[4..]);
            let quants = block[16..].chunks_exact(32);
            for (pair, (quants, out)) in quants.zip(out.chunks_exact_mut(64)).enumerate() {
                let (low, high) = out.split_at_mut(32);
                for (at, out) in [(2 * pair, low), (2 * pair + 1, high)] {
                    let [scale, lift] = scales[at].map(f32::from);
                    let (scale, lift) = (d * scale, minimum * lift);
                    let shift = 4 * (at % 2);
                    for (byte, out) in quants.iter().zip(out) {
                        *out = scale * f32::from(byte >> shift & 0xf) - lift;
                    }
                }
            }
        }
    }

    fn quant_vec4s(&self) -> usize {
        8
    }
    fn scale_words(&self) -> usize {
        5
    }

    /// Quants: of every 32 weights four words, 4w.. in the low nibbles of word w and 16 + 4w.. in the high ones.
    /// Scales: scale and minimum of every 32 weights in two bytes; d in the low half of the last word, dmin above.
    fn repack(&self, bytes: &[u8], quants: &mut [u32], scales: &mut [u32]) {
        assert_eq!(bytes.len(), 144, "q4_k is repacked one block at a time");
        for block in 0..8 {
            nibbles_in_order(
                &bytes[16 + 32 * (block / 2)..],
                4 * (block % 2),
                &mut quants[4 * block..],
            );
        }
        scale_words(bytes, &mut scales[0..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::five_bit_quants;
    use crate::quant::lossless::assert_repack_is_lossless;

    #[test]
    fn the_device_words_hold_the_same_weights() {
        assert_repack_is_lossless(&Q4_K, |quants, scales| {
            let last = scales[4].to_le_bytes();
            let (d, minimum) = (half(&last), half(&last[2..]));
            let weights = |block: usize| {
                let [scale, lift, ..] = (scales[block / 2] >> (16 * (block % 2))).to_le_bytes();
                let (scale, lift) = (d * f32::from(scale), minimum * f32::from(lift));
                let quants = five_bit_quants(&quants[4 * block..], 0);
                quants.map(move |quant| scale * quant - lift)
            };
            (0..8).flat_map(weights).collect()
        });
    }
}
