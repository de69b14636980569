//! `q6_k`: 256 weights as 128 bytes of low nibbles, 64 of the two bits above, 16 signed scales of 16 weights each and a half `d`;
//! weight = d · scale · (quant − 32).

use foretoken_core::QuantFormat;

use crate::bits::{nibbles_in_order, word};
use crate::quant::{assert_blocks, half, half_bits, words};

/// 6-bit quants around zero in blocks of 256, with a scale for every 16.
#[derive(Debug)]
#[expect(non_camel_case_types, reason = "as ggml spells it")]
pub struct Q6_K;

impl QuantFormat for Q6_K {
    fn name(&self) -> &'static str {
        "q6_k"
    }
    fn ggml_type(&self) -> u32 {
        14
    }
    fn block_len(&self) -> usize {
        256
    }
    fn block_bytes(&self) -> usize {
        210
    }

    fn dequantize(&self, bytes: &[u8], out: &mut [f32]) {
        assert_blocks(&Q6_K, bytes, out);
        for (block, out) in bytes.chunks_exact(210).zip(out.chunks_exact_mut(256)) {
            let d = half(&block[208..]);
            for (at, out) in out.chunks_exact_mut(16).enumerate() {
                let scale = d * f32::from(block[192 + at].cast_signed());
                for (i, out) in out.iter_mut().enumerate() {
                    *out = scale * (f32::from(quant(block, 16 * at + i)) - 32.0);
                }
            }
        }
    }

    fn quant_vec4s(&self) -> usize {
        8
    }
    fn scale_words(&self) -> usize {
        21
    }

    /// Quants: of every 32 weights four words, the low nibbles of weights 4w.. in the low nibbles of word w and those
    /// of 16 + 4w.. in the high ones. Scales: of every 32 weights two words of the bits above, for weights 0..16 and
    /// 16..32; in byte b of either those of weights b, 4 + b, 8 + b and 12 + b of its 16, from bits 4, 6, 2 and 0 on;
    /// then the signed scales, four a word; then d in the low half of a word, 0 above.
    fn repack(&self, bytes: &[u8], quants: &mut [u32], scales: &mut [u32]) {
        assert_eq!(bytes.len(), 210, "q6_k is repacked one block at a time");
        for block in 0..8 {
            let (half, row) = (block / 4, block % 4);
            let low = &bytes[64 * half + 32 * (row % 2)..];
            nibbles_in_order(low, 4 * (row / 2), &mut quants[4 * block..]);
            for part in 0..2 {
                let high = &bytes[128 + 32 * half + 16 * part..];
                let bits = |i: usize| (word(high, i) >> (2 * row) & 0x0303_0303) << PLACES[i];
                scales[2 * block + part] = bits(0) | bits(1) | bits(2) | bits(3);
            }
        }
        for (to, word) in scales[16..].iter_mut().zip(words(&bytes[192..208])) {
            *to = word;
        }
        scales[20] = half_bits(&bytes[208..]);
    }
}

/// Where the two upper bits of a weight stand in their byte, by its word of nibbles: where a mask or one shift finds them.
const PLACES: [usize; 4] = [4, 6, 2, 0];

/// A weight's six bits in a block of the file.
fn quant(block: &[u8], weight: usize) -> u8 {
    let (half, row, at) = (weight / 128, weight / 32 % 4, weight % 32);
    let low = block[64 * half + 32 * (row % 2) + at] >> (4 * (row / 2)) & 0xf;
    let high = block[128 + 32 * half + at] >> (2 * row) & 3;
    low | high << 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::lossless::assert_repack_is_lossless;

    #[test]
    fn the_device_words_hold_the_same_weights() {
        assert_repack_is_lossless(&Q6_K, |quants, scales| {
            assert_eq!(scales[20] >> 16, 0);
            let d = half(&scales[20].to_le_bytes());
            let weight = |i: usize| {
                let (block, half, word, byte) = (i / 32, i / 16 % 2, i % 16 / 4, i % 4);
                let low = quants[4 * block + word] >> (8 * byte + 4 * half) & 0xf;
                let high = scales[2 * block + half] >> (8 * byte + PLACES[word]) & 3;
                let scale = scales[16 + i / 64].to_le_bytes()[i / 16 % 4].cast_signed();
                d * f32::from(scale) * ((low | high << 4) as f32 - 32.0)
            };
            (0..256).map(weight).collect()
        });
    }
}
