//! `q4_1`: 32 weights as halves `d` and `m` and 16 bytes of nibbles; weight = d · nibble + m.

use foretoken_core::QuantFormat;

use crate::quant::{assert_blocks, half, half_bits, words};

/// 4-bit quants above a minimum, with one scale and one minimum a block.
#[derive(Debug)]
pub struct Q4_1;

impl QuantFormat for Q4_1 {
    fn name(&self) -> &'static str {
        "q4_1"
    }
    fn ggml_type(&self) -> u32 {
        3
    }
    fn block_len(&self) -> usize {
        32
    }
    fn block_bytes(&self) -> usize {
        20
    }

    fn dequantize(&self, bytes: &[u8], out: &mut [f32]) {
        assert_blocks(&Q4_1, bytes, out);
        for (block, out) in bytes.chunks_exact(20).zip(out.chunks_exact_mut(32)) {
            let (d, m) = (half(block), half(&block[2..]));
            let (low, high) = out.split_at_mut(16);
            for ((byte, low), high) in block[4..].iter().zip(low).zip(high) {
                *low = d * f32::from(byte & 0xf) + m;
                *high = d * f32::from(byte >> 4) + m;
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
    /// its high ones. Scales: d in the low half, m in the high half.
    fn repack(&self, bytes: &[u8], quants: &mut [u32], scales: &mut [u32]) {
        assert_eq!(bytes.len(), 20, "q4_1 is repacked one block at a time");
        scales[0] = half_bits(bytes) | half_bits(&bytes[2..]) << 16;
        for (to, word) in quants.iter_mut().zip(words(&bytes[4..])) {
            *to = word;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::lossless::assert_repack_is_lossless;

    #[test]
    fn the_device_words_hold_the_same_weights() {
        assert_repack_is_lossless(&Q4_1, |quants, scales| {
            let scale = scales[0].to_le_bytes();
            let (d, m) = (half(&scale), half(&scale[2..]));
            let weight = |word: u32, byte: u32, high: u32| {
                d * ((quants[word as usize] >> (8 * byte + 4 * high)) & 0xf) as f32 + m
            };
            (0..32).map(|i| weight(i % 16 / 4, i % 4, i / 16)).collect()
        });
    }
}
