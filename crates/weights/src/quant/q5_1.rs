//! `q5_1`: 32 weights as halves `d` and `m`, 4 bytes of fifth bits and 16 of nibbles; weight = d · quant + m.

use foretoken_core::QuantFormat;

use crate::bits::{fifth_bits, word};
use crate::quant::{assert_blocks, half, half_bits, words};

/// 5-bit quants above a minimum, with one scale and one minimum a block.
#[derive(Debug)]
pub struct Q5_1;

impl QuantFormat for Q5_1 {
    fn name(&self) -> &'static str {
        "q5_1"
    }
    fn ggml_type(&self) -> u32 {
        7
    }
    fn block_len(&self) -> usize {
        32
    }
    fn block_bytes(&self) -> usize {
        24
    }

    fn dequantize(&self, bytes: &[u8], out: &mut [f32]) {
        assert_blocks(&Q5_1, bytes, out);
        for (block, out) in bytes.chunks_exact(24).zip(out.chunks_exact_mut(32)) {
            let (d, m) = (half(block), half(&block[2..]));
            let fifth = word(&block[4..], 0);
            let (low, high) = out.split_at_mut(16);
            let pairs = block[8..].iter().zip(low).zip(high);
            for (i, ((byte, low), high)) in pairs.enumerate() {
                let bit = |i: usize| (fifth >> i & 1) as u8 * 16;
                *low = d * f32::from((byte & 0xf) | bit(i)) + m;
                *high = d * f32::from((byte >> 4) | bit(i + 16)) + m;
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
    /// its high ones. Scales: the fifth bits ([`fifth_bits`]); d in the low half, m in the high half.
    fn repack(&self, bytes: &[u8], quants: &mut [u32], scales: &mut [u32]) {
        assert_eq!(bytes.len(), 24, "q5_1 is repacked one block at a time");
        scales[0] = fifth_bits(word(&bytes[4..], 0));
        scales[1] = half_bits(bytes) | half_bits(&bytes[2..]) << 16;
        for (to, word) in quants.iter_mut().zip(words(&bytes[8..])) {
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
        assert_repack_is_lossless(&Q5_1, |quants, scales| {
            let scale = scales[1].to_le_bytes();
            let (d, m) = (half(&scale), half(&scale[2..]));

            let quants = five_bit_quants(quants, scales[0]);
            quants.map(|quant| d * quant + m).collect()
        });
    }
}
