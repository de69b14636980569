//! What is counted about drafts and their acceptance. The words are vLLM's.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use foretoken_core::MAX_VERIFY_ROWS;

/// The most tokens a step drafts.
pub const MAX_SPECULATIVE_TOKENS: usize = MAX_VERIFY_ROWS - 1;

/// How much is counted about one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum StatisticsLevel {
    /// Nothing: no memory, no arithmetic, no clock.
    #[default]
    None,
    /// Totals and histograms.
    Summary,
    /// One entry a step too, and where time went.
    Detailed,
}

/// Acceptance in one answer. Verification is counted, not emission: a step that accepted 3 drafts of which the second
/// ended the answer counts 3.
#[derive(Debug, Clone, PartialEq)]
pub struct AcceptanceStatistics {
    level: StatisticsLevel,
    /// The most a step may draft.
    pub num_spec_tokens: usize,
    /// Verification steps with at least one draft.
    pub num_spec_steps: u64,
    /// Tokens the drafter proposed, those the loop cut before verification included.
    pub num_proposed_tokens: u64,
    /// Drafts that were verified.
    pub num_draft_tokens: u64,
    /// Drafts that were accepted; never a bonus token.
    pub num_accepted_draft_tokens: u64,
    /// Index j: steps that accepted exactly j drafts. Length `num_spec_tokens + 1`.
    pub acceptance_histogram: Vec<u64>,
    /// The same by how many drafts a step verified: d → histogram of length d + 1.
    pub acceptance_histogram_by_draft_length: BTreeMap<usize, Vec<u64>>,
    /// Drafts each step accepted, in order; [`StatisticsLevel::Detailed`] only.
    pub per_step_accepted: Vec<u64>,
    /// Drafts each step verified, in order; [`StatisticsLevel::Detailed`] only.
    pub per_step_drafted: Vec<u64>,
    /// Steps after the prompt's that had no draft.
    pub plain_steps: u64,
    /// Passes of steps after the prompt's by the rows that they were recorded for. Where the device drafts, those may be more than it
    /// then had, at the same cost.
    pub passes_by_rows: BTreeMap<usize, u64>,
    /// Tokens of the answer that had been drafted: accepted drafts less those after its end.
    pub emitted_from_drafts: u64,
    /// Passes of the draft model, one a token that it proposed. They and the pass that verified them were one submission: nobody knows
    /// how long each took, and `verify_time_ms` has both.
    pub num_draft_passes: u64,
    /// Milliseconds the host spent in the drafter, and a draft model in reading what it lacked of a prompt;
    /// [`StatisticsLevel::Detailed`] only.
    pub draft_time_ms: f64,
    /// Milliseconds from recording a step's pass to having read what it chose, drafts or none;
    /// [`StatisticsLevel::Detailed`] only.
    pub verify_time_ms: f64,
    /// The part of `verify_time_ms` spent waiting for the device; [`StatisticsLevel::Detailed`] only.
    pub sync_time_ms: f64,
}

impl AcceptanceStatistics {
    /// Nothing counted yet; `None` at [`StatisticsLevel::None`]. `num_spec_tokens`: the most a step may draft.
    pub fn new(level: StatisticsLevel, num_spec_tokens: usize) -> Option<Self> {
        (level != StatisticsLevel::None).then(|| Self {
            level,
            num_spec_tokens,
            num_spec_steps: 0,
            num_proposed_tokens: 0,
            num_draft_tokens: 0,
            num_accepted_draft_tokens: 0,
            acceptance_histogram: vec![0; num_spec_tokens + 1],
            acceptance_histogram_by_draft_length: BTreeMap::new(),
            per_step_accepted: Vec::new(),
            per_step_drafted: Vec::new(),
            plain_steps: 0,
            passes_by_rows: BTreeMap::new(),
            emitted_from_drafts: 0,
            num_draft_passes: 0,
            draft_time_ms: 0.0,
            verify_time_ms: 0.0,
            sync_time_ms: 0.0,
        })
    }

    /// The level it was made for.
    pub fn level(&self) -> StatisticsLevel {
        self.level
    }

    /// Counts one step after the prompt's: `drafted` drafts were verified and the first `accepted` accepted.
    ///
    /// # Panics
    /// If more were drafted than a step may, or more accepted than drafted.
    pub fn record_step(&mut self, drafted: usize, accepted: usize) {
        assert!(
            accepted <= drafted && drafted <= self.num_spec_tokens,
            "{accepted} accepted of {drafted} drafts, at most {}",
            self.num_spec_tokens
        );
        if drafted == 0 {
            self.plain_steps += 1;
            return;
        }
        self.num_spec_steps += 1;
        self.num_draft_tokens += drafted as u64;
        self.num_accepted_draft_tokens += accepted as u64;
        self.acceptance_histogram[accepted] += 1;
        self.acceptance_histogram_by_draft_length
            .entry(drafted)
            .or_insert_with(|| vec![0; drafted + 1])[accepted] += 1;
        if self.level == StatisticsLevel::Detailed {
            self.per_step_accepted.push(accepted as u64);
            self.per_step_drafted.push(drafted as u64);
        }
    }

    /// Counts the pass of a step after the prompt's, recorded for `rows` rows.
    pub fn record_pass(&mut self, rows: usize) {
        *self.passes_by_rows.entry(rows).or_default() += 1;
    }

    /// Tokens a verification step commits on average, the target's own included: 1 to k + 1; 1 without steps.
    pub fn mean_acceptance_length(&self) -> f64 {
        1.0 + ratio(self.num_accepted_draft_tokens, self.num_spec_steps)
    }

    /// The part of the verified drafts that was accepted; 0 without drafts.
    pub fn draft_acceptance_rate(&self) -> f64 {
        ratio(self.num_accepted_draft_tokens, self.num_draft_tokens)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// Totals over every request, whatever its level: what `vllm:spec_decode_*_total` report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AggregateCounters {
    /// Verification steps with at least one draft.
    pub num_drafts: u64,
    /// Drafts that were verified.
    pub num_draft_tokens: u64,
    /// Drafts that were accepted.
    pub num_accepted_tokens: u64,
    /// Index i: steps that accepted their draft i.
    pub accepted_per_pos: [u64; MAX_SPECULATIVE_TOKENS],
}

impl AggregateCounters {
    /// Counts one step.
    pub(crate) fn record_step(&mut self, drafted: usize, accepted: usize) {
        if drafted == 0 {
            return;
        }
        self.num_drafts += 1;
        self.num_draft_tokens += drafted as u64;
        self.num_accepted_tokens += accepted as u64;
        for count in &mut self.accepted_per_pos[..accepted] {
            *count += 1;
        }
    }
}

impl AddAssign for AggregateCounters {
    fn add_assign(&mut self, other: Self) {
        self.num_drafts += other.num_drafts;
        self.num_draft_tokens += other.num_draft_tokens;
        self.num_accepted_tokens += other.num_accepted_tokens;
        for (sum, count) in self.accepted_per_pos.iter_mut().zip(other.accepted_per_pos) {
            *sum += count;
        }
    }
}
