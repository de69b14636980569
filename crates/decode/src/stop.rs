//! What ends an answer.

use foretoken_core::TokenId;

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinishReason {
    /// The model ended it, or a stop token or stop string was met.
    Stop,
    /// `max_tokens` or the end of the context was reached.
    Length,
}

/// What ends an answer, as far as token ids can tell. (Stop strings need text: whoever has it calls
/// [`crate::DecodeLoop::stop_after`].)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopConditions {
    /// Tokens with which the model says that it is done, or that the request stops at.
    pub token_ids: Vec<TokenId>,
    /// The most tokens to generate, at least 1.
    pub max_tokens: usize,
    /// Positions of the context: prompt and answer together never have more tokens.
    pub context: usize,
}

impl StopConditions {
    /// Whether the answer ends with `token`, which is its `generated`-th token and the
    /// `total`-th of the sequence (both counted from 1). A stop token wins over the lengths.
    pub fn finish(&self, token: TokenId, generated: usize, total: usize) -> Option<FinishReason> {
        if self.token_ids.contains(&token) {
            Some(FinishReason::Stop)
        } else if generated >= self.max_tokens || total >= self.context {
            Some(FinishReason::Length)
        } else {
            None
        }
    }
}
