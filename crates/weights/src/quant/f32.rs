//! `f32`: single precision.

use foretoken_core::QuantFormat;

use crate::quant::{assert_blocks, words};

/// Single precision, no scale.
#[derive(Debug)]
pub struct F32;

impl QuantFormat for F32 {
    fn name(&self) -> &'static str {
        "f32"
    }
    fn ggml_type(&self) -> u32 {
        0
    }
    fn block_len(&self) -> usize {
        1
    }
    fn block_bytes(&self) -> usize {
        4
    }

    fn dequantize(&self, bytes: &[u8], out: &mut [f32]) {
        assert_blocks(&F32, bytes, out);
        for (word, out) in words(bytes).zip(out) {
            *out = f32::from_bits(word);
        }
    }

    fn quant_vec4s(&self) -> usize {
        8
    }
    fn scale_words(&self) -> usize {
        0
    }

    /// Quants: the 32 words as they are. No scales.
    fn repack(&self, bytes: &[u8], quants: &mut [u32], _scales: &mut [u32]) {
        assert_eq!(bytes.len(), 128, "f32 is repacked 32 weights at a time");
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
        assert_repack_is_lossless(&F32, |quants, scales| {
            assert!(scales.is_empty());
            quants.iter().map(|word| f32::from_bits(*word)).collect()
        });
    }
}
