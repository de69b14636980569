//! `bf16`: the upper halves of f32 values.

use foretoken_core::QuantFormat;

use crate::quant::{assert_blocks, half_bits, words};

/// The upper 16 bits of single precision, no scale.
#[derive(Debug)]
pub struct BF16;

impl QuantFormat for BF16 {
    fn name(&self) -> &'static str {
        "bf16"
    }
    fn ggml_type(&self) -> u32 {
        30
    }
    fn block_len(&self) -> usize {
        1
    }
    fn block_bytes(&self) -> usize {
        2
    }

    fn dequantize(&self, bytes: &[u8], out: &mut [f32]) {
        assert_blocks(&BF16, bytes, out);
        for (bytes, out) in bytes.chunks_exact(2).zip(out) {
            *out = f32::from_bits(half_bits(bytes) << 16);
        }
    }

    fn quant_vec4s(&self) -> usize {
        4
    }
    fn scale_words(&self) -> usize {
        0
    }

    /// Quants: the 64 bytes as they are, two weights a word, the first in the low half. No scales.
    fn repack(&self, bytes: &[u8], quants: &mut [u32], _scales: &mut [u32]) {
        assert_eq!(bytes.len(), 64, "bf16 is repacked 32 weights at a time");
        for (to, word) in quants.iter_mut().zip(words(bytes)) {
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
        assert_repack_is_lossless(&BF16, |quants, scales| {
            assert!(scales.is_empty());
            let weights = |word: &u32| {
                [
                    f32::from_bits(word << 16),
                    f32::from_bits(word & 0xffff_0000),
                ]
            };
            quants.iter().flat_map(weights).collect()
        });
    }
}
