//! `draft`: a draft model's choice, and the rows of what comes next, made on the device.

use foretoken_core::{Chosen, DraftChoice, DraftStart, Drafted, MAX_VERIFY_ROWS};

use crate::gpu_ops::{GpuActivation, GpuOps, GpuTokenMap, chosen_token};
use crate::ops::MAX_STEP_ROWS;
use crate::ops::choose::Needs;
use crate::recording::{Access, Kernel, constants};

/// Bytes of `DraftStart` in `ops/draft.wgsl`.
pub(crate) const DRAFT_START_BYTES: u64 = 16;
/// `chosen` to `log_confidences` of `lib/sequence_state.wgsl`: what a step maps whose drafts the device made.
pub(crate) const DRAFTED_BYTES: u64 = 3 * 4 * MAX_VERIFY_ROWS as u64;

const KERNEL: Kernel = Kernel {
    constants: constants([MAX_STEP_ROWS]),
    ..Kernel::new(
        "ops/draft.wgsl",
        &[
            Access::Write,
            Access::Read,
            Access::Read,
            Access::Read,
            Access::Write,
        ],
    )
};

pub(crate) fn catalog() -> Vec<Kernel> {
    vec![KERNEL]
}

/// The words of a start.
pub(crate) fn start_words(start: &DraftStart) -> [u32; 4] {
    // No infinity reaches a kernel: implementations may take it for anything.
    let log_confidence = start.log_confidence.max(f32::MIN);
    [
        start.token,
        start.position,
        start.sequence,
        log_confidence.to_bits(),
    ]
}

/// What the device's words say of a verified draft.
pub(crate) fn drafted(words: &[u32]) -> Drafted {
    let (chosen, rest) = words.split_at(MAX_VERIFY_ROWS);
    let (drafts, rest) = rest.split_at(MAX_VERIFY_ROWS - 1);
    let len = (rest[0] as usize).min(drafts.len());
    let confidences = rest[1..=len].iter().copied();
    let chosen: Vec<Chosen> = chosen[..=len].iter().map(chosen_token).collect();
    Drafted {
        drafts: drafts[..len].to_vec(),
        log_confidences: confidences.map(f32::from_bits).collect(),
        chosen,
    }
}

impl GpuOps {
    pub(crate) fn record_draft(
        &mut self,
        logits: &GpuActivation,
        choice: &DraftChoice,
        to_target: Option<&GpuTokenMap>,
    ) {
        assert_eq!(
            self.pass.logit_rows, 1,
            "a draft model's pass has one logit row"
        );
        let mut needs = match to_target {
            Some(_) => Needs::default(),
            None => self.needs_of_pass(),
        };
        if logits.cols != choice.vocab {
            needs = needs.without_rules();
        }
        self.record_choice(logits, needs, false);
        if choice.stops_early {
            self.record_logprobs(logits, 0);
        }
        let nothing = self.recorder.nothing().clone();
        let (map, mapped) = match to_target {
            Some(map) => (map.buffer.clone(), map.len),
            None => (nothing, 0),
        };
        let params = [
            choice.index,
            u32::from(choice.last),
            u32::from(choice.stops_early),
            choice.vocab,
            mapped,
            0,
            0,
            0,
        ];
        let (state, start) = (self.state.clone(), self.draft_start.clone());
        let (logprobs, next) = (self.logprobs.clone(), self.next_rows.clone());
        self.recorder.dispatch(
            &KERNEL,
            params,
            &[&state, &start, &logprobs, &map, &next],
            [1, 1, 1],
        );
    }
}
