//! `iq4_nl`: 32 weights as a half `d` and 16 bytes of nibbles that choose of a table of 16; weight = d · entry.

use foretoken_core::QuantFormat;

use crate::quant::{assert_blocks, half, half_bits, words};

/// 4-bit choices of a table that is finer near zero, with one scale a block.
#[derive(Debug)]
#[expect(non_camel_case_types, reason = "as ggml spells it")]
pub struct IQ4_NL;

impl QuantFormat for IQ4_NL {
    fn name(&self) -> &'static str {
        "iq4_nl"
    }
    fn ggml_type(&self) -> u32 {
        20
    }
    fn block_len(&self) -> usize {
        32
    }
    fn block_bytes(&self) -> usize {
        18
    }

    fn dequantize(&self, bytes: &[u8], out: &mut [f32]) {
        assert_blocks(&IQ4_NL, bytes, out);
        for (block, out) in bytes.chunks_exact(18).zip(out.chunks_exact_mut(32)) {
            let d = half(block);
            let (low, high) = out.split_at_mut(16);
            for ((byte, low), high) in block[2..].iter().zip(low).zip(high) {
                *low = d * f32::from(TABLE[usize::from(byte & 0xf)]);
                *high = d * f32::from(TABLE[usize::from(byte >> 4)]);
            }
        }
    }

    fn quant_vec4s(&self) -> usize {
        1
    }
    fn scale_words(&self) -> usize {
        1
    }

    /// Quants: the 16 bytes as they are, so that word w holds weights 4w.. in its low nibbles and 16 + 4w.. in
    /// its high ones. Scales: d in the low half, 0 above.
    fn repack(&self, bytes: &[u8], quants: &mut [u32], scales: &mut [u32]) {
        assert_eq!(bytes.len(), 18, "iq4_nl is repacked one block at a time");
        scales[0] = half_bits(bytes);
        for (to, word) in quants.iter_mut().zip(words(&bytes[2..])) {
            *to = word;
        }
    }
}

/// What a nibble stands for, times d.
const TABLE: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::lossless::assert_repack_is_lossless;

    #[test]
    fn the_device_words_hold_the_same_weights() {
        assert_repack_is_lossless(&IQ4_NL, |quants, scales| {
            let d = half(&scales[0].to_le_bytes());
            assert_eq!(scales[0] >> 16, 0);
            let weight = |i: usize| {
                let choice = quants[i % 16 / 4] >> (8 * (i % 4) + 4 * (i / 16)) & 0xf;
                d * f32::from(TABLE[choice as usize])
            };
            (0..32).map(weight).collect()
        });
    }
}
