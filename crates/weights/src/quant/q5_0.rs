//! `q5_0`: 32 weights as a half `d`, 4 bytes of fifth bits and 16 of nibbles; weight = d · (quant − 16).

use foretoken_core::QuantFormat;

use crate::bits::{fifth_bits, word};
use crate::quant::{assert_blocks, half, half_bits, words};

/// 5-bit quants around zero with one scale a block.
#[derive(Debug)]
pub struct Q5_0;

impl QuantFormat for Q5_0 {
    fn name(&self) -> &'static str {
        "q5_0"
    }
    fn ggml_type(&self) -> u32 {
        6
    }
    fn block_len(&self) -> usize {
        32
    }
    fn block_bytes(&self) -> usize {
        22
    }

    fn dequantize(&self, bytes: &[u8], out: &mut [f32]) {
        assert_blocks(&Q5_0, bytes, out);
        for (block, out) in bytes.chunks_exact(22).zip(out.chunks_exact_mut(32)) {
            let d = half(block);
            let fifth = word(&block[2..], 0);
            let (low, high) = out.split_at_mut(16);
            let pairs = block[6..].iter().zip(low).zip(high);
            for (i, ((byte, low), high)) in pairs.enumerate() {
                let bit = |i: usize| (fifth >> i & 1) as u8 * 16;
                *low = d * (f32::from((byte & 0xf) | bit(i)) - 16.0);
                *high = d * (f32::from((byte >> 4) | bit(i + 16)) - 16.0);
            }
        }
    }

    fn quant_vec4s(&self) -> usize {
        1
    }
    fn scale_words(&self) -> usize {
        2
    }

    /// Quants: the 16 bytes as they are, so that word w holds weights 4w.. in its low nibbles and 16 + 4w.. in
    /// its high ones. Scales: the fifth bits ([`fifth_bits`]); d in the low half, 0 above.
    fn repack(&self, bytes: &[u8], quants: &mut [u32], scales: &mut [u32]) {
        assert_eq!(bytes.len(), 22, "q5_0 is repacked one block at a time");
        scales[0] = fifth_bits(word(&bytes[2..], 0));
        scales[1] = half_bits(bytes);
        for (to, word) in quants.iter_mut().zip(words(&bytes[6..])) {
            *to = word;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::five_bit_quants;
    use crate::quant::lossless::assert_repack_is_lossless;

    #[test]
    fn the_device_words_hold_the_same_weights() {
        assert_repack_is_lossless(&Q5_0, |quants, scales| {
            let scale = scales[1].to_le_bytes();
            let d = half(&scale);
            assert_eq!(scales[1] >> 16, 0);
            let quants = five_bit_quants(quants, scales[0]);
            quants.map(|quant| d * (quant - 16.0)).collect()
        });
    }
}
