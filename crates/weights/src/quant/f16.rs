//! `f16`: IEEE halves.

use foretoken_core::QuantFormat;

use crate::quant::{assert_blocks, half, words};

/// Half precision, no scale.
#[derive(Debug)]
pub struct F16;

impl QuantFormat for F16 {
    fn name(&self) -> &'static str {
        "f16"
    }
    fn ggml_type(&self) -> u32 {
        1
    }
    fn block_len(&self) -> usize {
        1
    }
    fn block_bytes(&self) -> usize {
        2
    }

    fn dequantize(&self, bytes: &[u8], out: &mut [f32]) {
        assert_blocks(&F16, bytes, out);
        for (bytes, out) in bytes.chunks_exact(2).zip(out) {
            *out = half(bytes);
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
        assert_eq!(bytes.len(), 64, "f16 is repacked 32 weights at a time");
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
        assert_repack_is_lossless(&F16, |quants, scales| {
            assert!(scales.is_empty());
            let weight = |word: &u32| word.to_le_bytes();
            let bytes: Vec<u8> = quants.iter().flat_map(weight).collect();
            bytes.chunks_exact(2).map(half).collect()
        });
    }
}
