//! `q4_0`: 32 weights as a half `d` and 16 bytes of nibbles; weight = d · (nibble − 8).

use foretoken_core::{QuantFormat, Quantize};

use crate::quant::{assert_blocks, blocks_to_encode, half, half_bits, words};

/// 4-bit quants around zero with one scale a block.
#[derive(Debug)]
pub struct Q4_0;

impl QuantFormat for Q4_0 {
    fn name(&self) -> &'static str {
        "q4_0"
    }
    fn ggml_type(&self) -> u32 {
        2
    }
    fn block_len(&self) -> usize {
        32
    }
    fn block_bytes(&self) -> usize {
        18
    }

    fn dequantize(&self, bytes: &[u8], out: &mut [f32]) {
        assert_blocks(&Q4_0, bytes, out);
        for (block, out) in bytes.chunks_exact(18).zip(out.chunks_exact_mut(32)) {
            let d = half(block);
            let (low, high) = out.split_at_mut(16);
            for ((byte, low), high) in block[2..].iter().zip(low).zip(high) {
                *low = d * (f32::from(byte & 0xf) - 8.0);
                *high = d * (f32::from(byte >> 4) - 8.0);
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
    /// its high ones. Scales: d in the low half; the high half is 0, where `q4_1` has its minimum.
    fn repack(&self, bytes: &[u8], quants: &mut [u32], scales: &mut [u32]) {
        assert_eq!(bytes.len(), 18, "q4_0 is repacked one block at a time");
        scales[0] = half_bits(bytes);
        for (to, word) in quants.iter_mut().zip(words(&bytes[2..])) {
            *to = word;
        }
    }

    fn quantize(&self) -> Option<Quantize> {
        Some(encode)
    }
}

/// d = the value that is largest by size, the first of equals, / −8, so that it becomes nibble 0 exactly.
fn encode(values: &[f32], out: &mut Vec<u8>) {
    for (block, finite) in blocks_to_encode(&Q4_0, values) {
        let mut most = block[0];
        for &value in block {
            if value.abs() > most.abs() {
                most = value;
            }
        }
        let d = if finite { most / -8.0 } else { f32::NAN };
        // By the scale before it is rounded to a half, as the definition has it.
        let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
        // Casting cuts off towards zero.
        let nibble = |value: f32| ((value * inverse + 8.5) as u8).min(15);
        out.extend(half::f16::from_f32(d).to_le_bytes());
        let (low, high) = block.split_at(16);
        let pairs = low.iter().zip(high);
        out.extend(pairs.map(|(low, high)| nibble(*low) | nibble(*high) << 4));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::lossless::assert_repack_is_lossless;

    #[test]
    fn the_device_words_hold_the_same_weights() {
        assert_repack_is_lossless(&Q4_0, |quants, scales| {
            let d = half(&scales[0].to_le_bytes());
            assert_eq!(scales[0] >> 16, 0);
            let weight = |word: u32, byte: u32, high: u32| {
                d * (((quants[word as usize] >> (8 * byte + 4 * high)) & 0xf) as f32 - 8.0)
            };
            (0..32).map(|i| weight(i % 16 / 4, i % 4, i / 16)).collect()
        });
    }
}
