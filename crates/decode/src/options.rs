//! How one answer is decoded.

use foretoken_core::Sampling;

use crate::{AdaptiveSpeculation, Auto, Drafter, StatisticsLevel, StopConditions};

/// Everything one answer is decoded by.
#[derive(Debug)]
pub struct DecodeOptions {
    /// How tokens are chosen. Token ids in it that the model does not have are left out: they are never chosen.
    pub sampling: Sampling,
    /// What ends the answer.
    pub stop: StopConditions,
    /// Who guesses ahead; `None`: plain decoding, or the draft model.
    pub drafter: Option<Box<dyn Drafter>>,
    /// Whether the [`crate::Draft`] that comes with each step guesses ahead, in place of a drafter.
    pub draft_model: bool,
    /// Several of them, of which each step takes one; in place of a drafter, the draft model and `adaptive`.
    pub auto: Option<Auto>,
    /// The most tokens a step drafts; above 15 it is taken as 15, which is what a pass holds.
    pub num_speculative_tokens: usize,
    /// Chooses for each step how many tokens up to that are drafted; `None`: always as many. It changes no answer.
    pub adaptive: Option<AdaptiveSpeculation>,
    /// Steps that one wait for the device reads, at most 8; twice as many are in flight. 0: every step waits for the one
    /// before it, as steps do whose log-probabilities are wanted or whose drafter the device cannot follow. It changes no
    /// answer. A loop with steps in flight has the ops to itself until its answer ends.
    pub steps_a_wait: usize,
    /// Log-probabilities of every token and of this many alternatives (at most
    /// [`foretoken_core::sampling::MAX_TOP_LOGPROBS`]); `None`: none are computed.
    pub logprobs: Option<u32>,
    /// What is counted about acceptance.
    pub statistics: StatisticsLevel,
    /// Whether blocks say where each token came from.
    pub provenance: bool,
}

impl DecodeOptions {
    /// Greedy, plain decoding up to `stop`, with nothing counted or reported.
    pub fn plain(stop: StopConditions) -> Self {
        Self {
            sampling: Sampling::greedy(),
            stop,
            drafter: None,
            draft_model: false,
            auto: None,
            num_speculative_tokens: 0,
            adaptive: None,
            steps_a_wait: 0,
            logprobs: None,
            statistics: StatisticsLevel::None,
            provenance: false,
        }
    }
}
