//! Known data: the same numbers on every machine.

use foretoken_core::Format;

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// `n` values in -1..1.
    pub(super) fn values(&mut self, n: usize) -> Vec<f32> {
        let unit = |_| (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
        (0..n).map(unit).collect()
    }

    /// `n` logits: a few large ones and a long tail, as a language model's.
    pub(super) fn logits(&mut self, n: usize) -> Vec<f32> {
        let mut values = self.values(n);
        for value in &mut values {
            let unit = 0.5 * (*value + 1.0);
            *value = unit.powi(24) * 12.0 + unit - 0.5;
        }
        values
    }

    /// File bytes of `weights` weights whose values stay below 2: blocks are drawn until they do.
    pub(super) fn weights(&mut self, format: Format, weights: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut decoded = vec![0.0; format.block_len()];
        while bytes.len() < weights / format.block_len() * format.block_bytes() {
            let block: Vec<u8> = (0..format.block_bytes())
                .map(|_| self.next() as u8)
                .collect();
            format.dequantize(&block, &mut decoded);
            let sane = decoded.iter().all(|v| v.is_finite() && v.abs() < 2.0);
            if sane && decoded.iter().any(|v| v.abs() > 1e-3) {
                bytes.extend(block);
            }
        }
        bytes
    }
}

/// Little-endian bytes.
pub(super) fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}
