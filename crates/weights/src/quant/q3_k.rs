//! `q3_k`: 256 weights as 32 bytes of third bits, 64 of the two below, 12 of 6-bit scales of 16 weights each and a half `d`;
//! weight = d · (scale − 32) · (quant − 4).

use foretoken_core::QuantFormat;

use crate::bits::{bits_in_order, two_bits, two_bits_in_order};
use crate::quant::{assert_blocks, half, half_bits};

/// 3-bit quants around zero in blocks of 256, with a scale for every 16.
#[derive(Debug)]
#[expect(non_camel_case_types, reason = "as ggml spells it")]
pub struct Q3_K;

impl QuantFormat for Q3_K {
    fn name(&self) -> &'static str {
        "q3_k"
    }
    fn ggml_type(&self) -> u32 {
        11
    }
    fn block_len(&self) -> usize {
        256
    }
    fn block_bytes(&self) -> usize {
        110
    }

    fn dequantize(&self, bytes: &[u8], out: &mut [f32]) {
        assert_blocks(&Q3_K, bytes, out);
        for (block, out) in bytes.chunks_exact(110).zip(out.chunks_exact_mut(256)) {
            let d = half(&block[108..]);
            for (at, out) in out.chunks_exact_mut(16).enumerate() {
                let scale = d * f32::from(scale(&block[96..], at));
                for (i, out) in (16 * at..).zip(out) {
                    let third = block[i % 32] >> (i / 32) & 1;
                    let quant = two_bits(&block[32..], i) | third << 2;
                    *out = scale * (f32::from(quant) - 4.0);
                }
            }
        }
    }

    fn quant_vec4s(&self) -> usize {
        4
    }
    fn scale_words(&self) -> usize {
        13
    }

    /// Quants: as [`two_bits_in_order`] has them. Scales: the third bits of every 32 weights, as [`bits_in_order`]
    /// has them; then the scales as signed bytes, four a word; then d in the low half of a word, 0 above.
    fn repack(&self, bytes: &[u8], quants: &mut [u32], scales: &mut [u32]) {
        assert_eq!(bytes.len(), 110, "q3_k is repacked one block at a time");
        two_bits_in_order(&bytes[32..], quants);
        for (block, to) in scales[..8].iter_mut().enumerate() {
            *to = bits_in_order(bytes, block);
        }
        for (word, to) in scales[8..12].iter_mut().enumerate() {
            let scale = |i: usize| scale(&bytes[96..], 4 * word + i).cast_unsigned();
            *to = u32::from_le_bytes([scale(0), scale(1), scale(2), scale(3)]);
        }
        scales[12] = half_bits(&bytes[108..]);
    }
}

/// Scale `at` of 16, −32..32, of their twelve bytes.
fn scale(bytes: &[u8], at: usize) -> i8 {
    let low = bytes[at % 8] >> (4 * (at / 8)) & 0xf;
    let high = bytes[8 + at % 4] >> (2 * (at / 4)) & 3;
    (low | high << 4).cast_signed() - 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::lossless::assert_repack_is_lossless;

    #[test]
    fn the_device_words_hold_the_same_weights() {
        assert_repack_is_lossless(&Q3_K, |quants, scales| {
            assert_eq!(scales[12] >> 16, 0);
            let d = half(&scales[12].to_le_bytes());
            let weight = |i: usize| {
                let (block, half, word, byte) = (i / 32, i / 16 % 2, i % 16 / 4, i % 4);
                let low = quants[i / 16] >> (8 * byte + 2 * word) & 3;
                let high = scales[block] >> (8 * byte + 4 * half + word) & 1;
                let scale = scales[8 + i / 64].to_le_bytes()[i / 16 % 4].cast_signed();
                d * f32::from(scale) * ((low | high << 2) as f32 - 4.0)
            };
            (0..256).map(weight).collect()
        });
    }
}
