//! Drafters: guesses at the next tokens, made on the host.
//!
//! A drafter cannot change an answer, only how fast it comes: the target verifies every draft and commits what it
//! would have chosen anyway. So a drafter needs no care about correctness, only about being right often and cheap.
//! One file a drafter; `docs/adding-a-drafter.md` says how.

mod ngram;
pub mod puppet;
mod suffix;

use std::fmt;

use foretoken_core::{NgramLookup, TokenId};

pub use foretoken_core::MatchOrder;
pub use ngram::NgramDrafter;
pub use suffix::{EarlierAnswers, MAX_EARLIER_TOKENS, SuffixDrafter, SuffixOptions};

/// Guesses the tokens that follow a sequence. One drafter serves one answer at a time.
pub trait Drafter: fmt::Debug {
    /// Its name, as `speculative_config.method` spells it.
    fn name(&self) -> &'static str;

    /// A new answer begins after `prompt`; whatever was known before is forgotten.
    fn start(&mut self, prompt: &[TokenId]);

    /// These tokens were committed after what the drafter has seen so far, accepted drafts among them.
    fn committed(&mut self, tokens: &[TokenId]);

    /// Guesses up to `k` tokens after the last committed one. Fewer, or none, is an answer: a step without drafts
    /// decodes plainly. The loop cuts what is beyond `k`, and everything from the first id outside the vocabulary on.
    fn propose(&mut self, k: usize) -> Vec<TokenId>;

    /// What the device has to look up to propose the same tokens, where it can: then steps need not wait for the host.
    fn lookup(&self) -> Option<NgramLookup> {
        None
    }
}
