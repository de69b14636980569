//! One file an op: which kernel it is, on which buffers, in how many workgroups.

pub(crate) mod attention;
pub(crate) mod choose;
pub(crate) mod draft;
pub(crate) mod embed;
pub(crate) mod logprobs;
pub(crate) mod matmul;
pub(crate) mod next_step;
pub(crate) mod qk_norm;
pub(crate) mod rms_norm;

use foretoken_core::MAX_PREFILL_ROWS;

/// Entries of the row table, for `lib/step.wgsl`.
pub(crate) const MAX_STEP_ROWS: (&str, u32) = ("MAX_STEP_ROWS", MAX_PREFILL_ROWS as u32);
