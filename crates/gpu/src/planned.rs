//! What a plan would have taken.

use std::collections::BTreeMap;

/// Bytes of the device's memory that were asked for while planning was on ([`crate::GpuOps::set_planning`]), by the code that a load
/// asks with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlannedBytes {
    /// Matrices as the device lays them out, norms and biases.
    pub weights: u64,
    /// Numbers in KV caches: 4 bytes each, or 2 in the tiers that store them as f16.
    pub kv_numbers: u64,
    /// Bytes of KV caches in the tier of the ops.
    pub kv: u64,
    /// Everything else: activations, RoPE's tables, attention's scratch, what the ops hold from the start.
    pub scratch: u64,
}

impl PlannedBytes {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.weights
            .saturating_add(self.kv)
            .saturating_add(self.scratch)
    }
}

/// The sums while they are made.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Whether a plan is made.
    pub(crate) on: bool,
    pub(crate) weights: u64,
    pub(crate) kv_numbers: u64,
    pub(crate) kv: u64,
    /// All buffers, of whatever kind, but for those that grow.
    pub(crate) all: u64,
    /// The largest that was asked for, of buffers that grow.
    pub(crate) grown: BTreeMap<&'static str, u64>,
}

impl Plan {
    /// The sums; `held` is what the device holds without the plan.
    pub(crate) fn bytes(&self, held: u64) -> PlannedBytes {
        let rest = self
            .all
            .saturating_sub(self.weights.saturating_add(self.kv));
        let grown = self.grown.values().copied().fold(0, u64::saturating_add);
        PlannedBytes {
            weights: self.weights,
            kv_numbers: self.kv_numbers,
            kv: self.kv,
            scratch: rest.saturating_add(grown).saturating_add(held),
        }
    }
}
