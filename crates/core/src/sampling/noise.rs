//! Counter-based Gumbel noise.
//!
//! A 24-bit uniform in f32 can reach 1.0, and `log` is coarse near 1, exactly where the winner of a large vocabulary
//! lies. So the noise is built from the small tail: with `w` uniform in (0, 1), `e = −log(1 − w)` is exponential
//! and `−log e` is Gumbel; for small `w` the series of `e` is exact to f32.

use crate::{Position, TokenId};

/// A 32-bit permutation with low bias: two multiplications between three xor-shifts.
const fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// Everything the noise of a position depends on but the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoiseKey {
    /// Added to the spread token id.
    pub add: u32,
    /// Xored between the two mixes.
    pub xor: u32,
}

impl NoiseKey {
    /// The key of the token that will stand at `position`.
    pub const fn new(seed: u64, choice: u32, position: Position) -> Self {
        let low = mix(seed as u32 ^ 0x9e37_79b9);
        let high = mix((seed >> 32) as u32 ^ low);
        let choice = mix(choice.wrapping_add(0x85eb_ca6b) ^ high);
        let add = mix(position.wrapping_mul(0x9e37_79b1) ^ choice);
        Self {
            add,
            xor: mix(add ^ low ^ 0xc2b2_ae35),
        }
    }

    /// The hash of a token.
    pub const fn hash(self, token: TokenId) -> u32 {
        mix(mix(token.wrapping_mul(0x9e37_79b1).wrapping_add(self.add)) ^ self.xor)
    }
}

/// Standard Gumbel noise from a 32-bit hash: between about −3.2 and 22.9.
pub fn gumbel(hash: u32) -> f32 {
    let w = ((hash as f32 + 0.5) * 2f32.powi(-32)).min(1.0 - 2f32.powi(-24));
    let e = if w < 2f32.powi(-6) {
        w + w * w / 2.0 + w * w * w / 3.0
    } else {
        -(1.0 - w).ln()
    };
    -e.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_finite_at_the_ends_and_has_gumbels_mean_and_variance() {
        assert!((gumbel(0) - 22.873_857).abs() < 1e-3, "{}", gumbel(0));
        assert!(
            (gumbel(u32::MAX) + 2.811_4).abs() < 1e-2,
            "{}",
            gumbel(u32::MAX)
        );
        let n = 1_000_000;
        let key = NoiseKey::new(7, 0, 3);
        let values: Vec<f64> = (0..n)
            .map(|token| f64::from(gumbel(key.hash(token))))
            .collect();
        let mean = values.iter().sum::<f64>() / f64::from(n);
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / f64::from(n);
        // Euler's constant; pi squared over six. Four standard errors.
        assert!(
            (mean - 0.577_215_66).abs() < 4.0 * 1.2825 / 1000.0,
            "{mean}"
        );
        assert!((variance - 1.644_934).abs() < 0.02, "{variance}");
    }

    #[test]
    fn every_input_changes_the_hash() {
        let base = NoiseKey::new(1, 0, 10).hash(5);
        let others = [
            NoiseKey::new(2, 0, 10).hash(5),
            NoiseKey::new(1 | 1 << 40, 0, 10).hash(5),
            NoiseKey::new(1, 1, 10).hash(5),
            NoiseKey::new(1, 0, 11).hash(5),
            NoiseKey::new(1, 0, 10).hash(6),
        ];
        for other in others {
            assert!((base ^ other).count_ones() > 4, "{base:x} {other:x}");
        }
    }
}
