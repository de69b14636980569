//! `next_step`: the rows of the next pass, made on the device.

use foretoken_core::{
    MAX_STEP_STOP_IDS, MatchOrder, NgramLookup, SequenceSlot, StepLimits, StepOutcome,
};

use crate::gpu_ops::{GpuOps, chosen_token};
use crate::ops::MAX_STEP_ROWS;
use crate::recording::{Access, Kernel, constants};

/// Words of `StepLimits` in `ops/next_step.wgsl`.
const LIMIT_WORDS: usize = 4 + MAX_STEP_STOP_IDS;
pub(crate) const LIMIT_BYTES: u64 = 4 * LIMIT_WORDS as u64;
/// Words of an outcome in `lib/sequence_state.wgsl`: ended, drafted, accepted, reserved, chosen.
const OUTCOME_WORDS: usize = 4 + foretoken_core::MAX_VERIFY_ROWS;
/// Bytes that the host maps a step in flight.
pub(crate) const OUTCOME_BYTES: u64 = 4 * OUTCOME_WORDS as u64;

const KERNEL: Kernel = Kernel {
    constants: constants([MAX_STEP_ROWS]),
    ..Kernel::new(
        "ops/next_step.wgsl",
        &[Access::Write, Access::Write, Access::Read, Access::Write],
    )
};

pub(crate) fn catalog() -> Vec<Kernel> {
    vec![KERNEL]
}

/// The words of the limits.
pub(crate) fn limit_words(sequence: SequenceSlot, limits: &StepLimits) -> [u32; LIMIT_WORDS] {
    let mut words = [0; LIMIT_WORDS];
    let ids = limits.stop_ids.len().min(MAX_STEP_STOP_IDS);
    words[..4].copy_from_slice(&[sequence, limits.tokens, limits.context, ids as u32]);
    words[4..4 + ids].copy_from_slice(&limits.stop_ids[..ids]);
    words
}

/// The outcomes of a batch of steps, in order.
pub(crate) fn outcomes(words: &[u32]) -> impl Iterator<Item = StepOutcome> {
    words.chunks_exact(OUTCOME_WORDS).map(|words| {
        if words[0] != 0 {
            return StepOutcome::default();
        }
        let accepted = words[2] as usize;
        StepOutcome {
            drafted: words[1] as usize,
            accepted,
            chosen: words[4..]
                .iter()
                .take(accepted + 1)
                .map(chosen_token)
                .collect(),
        }
    })
}

impl GpuOps {
    pub(crate) fn record_next_step(&mut self, drafts: usize, lookup: Option<&NgramLookup>) {
        let params = match lookup.filter(|_| drafts > 0) {
            Some(lookup) => [
                drafts as u32,
                lookup.min,
                lookup.max,
                u32::from(lookup.order == MatchOrder::Latest),
                0,
                0,
                0,
                0,
            ],
            None => [0, 1, 0, 0, 0, 0, 0, 0],
        };
        let history = self
            .history
            .clone()
            .expect("allocated with the KV cache, before start_steps");
        let (state, limits) = (self.state.clone(), self.step_limits.clone());
        let next = self.next_rows.clone();
        self.recorder.dispatch(
            &KERNEL,
            params,
            &[&state, &history, &limits, &next],
            [1, 1, 1],
        );
    }
}
