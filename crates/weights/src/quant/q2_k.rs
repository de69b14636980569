//! `q2_k`: 256 weights as 16 bytes of a 4-bit scale and minimum of 16 weights each, 64 bytes of quants and halves `d` and `dmin`;
//! weight = d · scale · quant − dmin · minimum.

use foretoken_core::QuantFormat;

use crate::bits::{two_bits, two_bits_in_order, word};
use crate::quant::{assert_blocks, half, words};

/// 2-bit quants in blocks of 256, with a scale and a minimum for every 16.
#[derive(Debug)]
#[expect(non_camel_case_types, reason = "as ggml spells it")]
pub struct Q2_K;

impl QuantFormat for Q2_K {
    fn name(&self) -> &'static str {
        "q2_k"
    }
    fn ggml_type(&self) -> u32 {
        10
    }
    fn block_len(&self) -> usize {
        256
    }
    fn block_bytes(&self) -> usize {
        84
    }

    fn dequantize(&self, bytes: &[u8], out: &mut [f32]) {
        assert_blocks(&Q2_K, bytes, out);
        for (block, out) in bytes.chunks_exact(84).zip(out.chunks_exact_mut(256)) {
            let (d, minimum) = (half(&block[80..]), half(&block[82..]));
            for (at, out) in out.chunks_exact_mut(16).enumerate() {
                let scale = d * f32::from(block[at] & 0xf);
                let lift = minimum * f32::from(block[at] >> 4);
                for (i, out) in out.iter_mut().enumerate() {
                    *out = scale * f32::from(two_bits(&block[16..], 16 * at + i)) - lift;
                }
            }
        }
    }

    fn quant_vec4s(&self) -> usize {
        4
    }
    fn scale_words(&self) -> usize {
        5
    }

    /// Quants: as [`two_bits_in_order`] has them. Scales: the 16 bytes as they are; d in the low half of the last
    /// word, dmin above.
    fn repack(&self, bytes: &[u8], quants: &mut [u32], scales: &mut [u32]) {
        assert_eq!(bytes.len(), 84, "q2_k is repacked one block at a time");
        two_bits_in_order(&bytes[16..], quants);
        for (to, word) in scales.iter_mut().zip(words(bytes)) {
            *to = word;
        }
        scales[4] = word(&bytes[80..], 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::lossless::assert_repack_is_lossless;

    #[test]
    fn the_device_words_hold_the_same_weights() {
        assert_repack_is_lossless(&Q2_K, |quants, scales| {
            let last = scales[4].to_le_bytes();
            let (d, minimum) = (half(&last), half(&last[2..]));
            let weight = |i: usize| {
                let quant = quants[i / 16] >> (8 * (i % 4) + 2 * (i % 16 / 4)) & 3;
                let scale = scales[i / 64].to_le_bytes()[i / 16 % 4];
                d * f32::from(scale & 0xf) * quant as f32 - minimum * f32::from(scale >> 4)
            };
            (0..256).map(weight).collect()
        });
    }
}
