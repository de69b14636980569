//! RoPE's table.

use foretoken_core::RopeTableSpec;

/// cos and sin, each f32 `[positions, pairs]`.
#[derive(Debug)]
pub struct CpuRopeTable {
    pub(crate) positions: usize,
    pub(crate) pairs: usize,
    pub(crate) cos: Vec<f32>,
    pub(crate) sin: Vec<f32>,
}

impl CpuRopeTable {
    /// Computed in f64, then rounded once: at position 4,000 an f32 angle is off by 2e-4.
    pub(crate) fn new(spec: &RopeTableSpec) -> Self {
        let angles = || {
            (0..spec.positions).flat_map(|position| {
                spec.inv_freq
                    .iter()
                    .map(move |frequency| f64::from(position) * frequency)
            })
        };
        Self {
            positions: spec.positions as usize,
            pairs: spec.inv_freq.len(),
            cos: angles()
                .map(|angle| (angle.cos() * spec.magnitude) as f32)
                .collect(),
            sin: angles()
                .map(|angle| (angle.sin() * spec.magnitude) as f32)
                .collect(),
        }
    }

    /// cos and sin of one position, `[pairs]` each.
    pub(crate) fn at(&self, position: usize) -> (&[f32], &[f32]) {
        assert!(
            position < self.positions,
            "RoPE table of {} positions: {position}",
            self.positions
        );
        let range = position * self.pairs..(position + 1) * self.pairs;
        (&self.cos[range.clone()], &self.sin[range])
    }
}
