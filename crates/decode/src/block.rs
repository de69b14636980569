//! What one step of the loop gives out.

use foretoken_core::TokenId;
use foretoken_core::sampling::TokenLogprobs;

use crate::FinishReason;

/// Where a token came from. Every one is the target's choice; this says what had been guessed of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenProvenance {
    /// The first token: the prompt's pass chose it.
    Prefill,
    /// A step without drafts chose it.
    Plain,
    /// It was drafted, and the target chose the same.
    Draft,
    /// The target's own in place of the first draft that differed.
    Recovered,
    /// The target's own after all drafts of a step were accepted.
    Bonus,
}

impl TokenProvenance {
    /// The provenance of the token at `index` of a block of which the first `accepted` of `drafted` drafts were
    /// accepted.
    pub(crate) fn of(index: usize, accepted: usize, drafted: usize) -> Self {
        if index < accepted {
            Self::Draft
        } else if drafted == 0 {
            Self::Plain
        } else if accepted == drafted {
            Self::Bonus
        } else {
            Self::Recovered
        }
    }
}

/// What one step committed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Block {
    /// The tokens, in order; the token that ended the answer is the last one.
    pub tokens: Vec<TokenId>,
    /// Where each came from; empty unless asked for.
    pub provenance: Vec<TokenProvenance>,
    /// The log-probabilities of each, of the raw logits; empty unless asked for.
    pub logprobs: Vec<TokenLogprobs>,
    /// Why the answer ended, if it did.
    pub finish: Option<FinishReason>,
}
