//! `logprobs`: of the chosen token and of the most probable ones, from the raw logits.

use foretoken_core::sampling::{MAX_TOP_LOGPROBS, TokenLogprobs};
use foretoken_core::{MAX_VERIFY_ROWS, RowSet};

use crate::gpu_ops::{GpuActivation, GpuOps};
use crate::ops::MAX_STEP_ROWS;
use crate::recording::{Access, Kernel, constants};

/// Entries of a row: the chosen token's, then the most probable ones'.
const ENTRIES: usize = 1 + MAX_TOP_LOGPROBS;
/// Bytes of the largest pass.
pub(crate) const LOGPROBS_BYTES: u64 = (MAX_VERIFY_ROWS * ENTRIES * 8) as u64;

const KERNEL: Kernel = Kernel {
    constants: constants([MAX_STEP_ROWS, ("MAX_TOP", MAX_TOP_LOGPROBS as u32)]),
    ..Kernel::new(
        "ops/logprobs.wgsl",
        &[Access::Read, Access::Read, Access::Write],
    )
};

pub(crate) fn catalog() -> Vec<Kernel> {
    vec![KERNEL]
}

/// Rows of the device's words.
pub(crate) fn parse(words: &[u32], rows: usize, top: usize) -> Vec<TokenLogprobs> {
    let row = |words: &[u32]| TokenLogprobs {
        chosen: f32::from_bits(words[1]),
        top: words[2..]
            .chunks_exact(2)
            .take(top)
            .map(|e| (e[0], f32::from_bits(e[1])))
            .collect(),
    };
    words
        .chunks_exact(2 * ENTRIES)
        .take(rows)
        .map(row)
        .collect()
}

impl GpuOps {
    pub(crate) fn record_logprobs(&mut self, logits: &GpuActivation, top: u32) {
        assert_eq!(logits.rows, RowSet::Logits, "logprobs: logits");
        assert!(
            top as usize <= MAX_TOP_LOGPROBS && top <= logits.cols,
            "logprobs: {top} alternatives"
        );
        let params = [logits.cols, top, 0, 0, 0, 0, 0, 0];
        let (state, out) = (self.state.clone(), self.logprobs.clone());
        let rows = self.pass.logit_rows;
        self.recorder.dispatch(
            &KERNEL,
            params,
            &[&logits.buffer, &state, &out],
            [rows, 1, 1],
        );
    }
}
