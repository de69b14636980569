//! `q8_0`: 32 weights as a half `d` and 32 signed bytes; weight = d · byte.

use foretoken_core::{QuantFormat, Quantize};

use crate::quant::{assert_blocks, blocks_to_encode, half, half_bits, words};

/// 8-bit quants with one scale a block.
#[derive(Debug)]
pub struct Q8_0;

impl QuantFormat for Q8_0 {
    fn name(&self) -> &'static str {
        "q8_0"
    }
    fn ggml_type(&self) -> u32 {
        8
    }
    fn block_len(&self) -> usize {
        32
    }
    fn block_bytes(&self) -> usize {
        34
    }

    fn dequantize(&self, bytes: &[u8], out: &mut [f32]) {
        assert_blocks(&Q8_0, bytes, out);
        for (block, out) in bytes.chunks_exact(34).zip(out.chunks_exact_mut(32)) {
            let d = half(block);
            for (byte, out) in block[2..].iter().zip(out) {
                *out = f32::from(byte.cast_signed()) * d;
            }
        }
    }

    fn quant_vec4s(&self) -> usize {
        2
    }
    fn scale_words(&self) -> usize {
        1
    }

    /// Quants: the 32 bytes as they are, four a word, the first lowest. Scales: d in the low half, 0 above.
    fn repack(&self, bytes: &[u8], quants: &mut [u32], scales: &mut [u32]) {
        assert_eq!(bytes.len(), 34, "q8_0 is repacked one block at a time");
        scales[0] = half_bits(bytes);
        for (to, word) in quants.iter_mut().zip(words(&bytes[2..])) {
            *to = word;
        }
    }

    fn quantize(&self) -> Option<Quantize> {
        Some(encode)
    }
}

/// d = the largest of a block by size / 127; byte = value / d, halves away from zero.
fn encode(values: &[f32], out: &mut Vec<u8>) {
    for (block, finite) in blocks_to_encode(&Q8_0, values) {
        let most = block.iter().fold(0.0f32, |most, v| most.max(v.abs()));
        let d = if finite { most / 127.0 } else { f32::NAN };
        // By the scale before it is rounded to a half, as the definition has it.
        let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
        out.extend(half::f16::from_f32(d).to_le_bytes());
        out.extend(block.iter().map(|v| ((v * inverse).round() as i8) as u8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::lossless::assert_repack_is_lossless;

    #[test]
    fn the_device_words_hold_the_same_weights() {
        assert_repack_is_lossless(&Q8_0, |quants, scales| {
            let d = half(&scales[0].to_le_bytes());
            assert_eq!(scales[0] >> 16, 0);
            // Shift the byte to the top, then arithmetically down: what a kernel does to get its sign.
            let weight =
                |i: usize| ((quants[i / 4] << (24 - 8 * (i % 4))).cast_signed() >> 24) as f32 * d;
            (0..32).map(weight).collect()
        });
    }
}
