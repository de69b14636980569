//! Answers in OpenAI's shapes.

mod chat;
mod completion;
mod shape;

use foretoken_core::TokenId;
use serde::Serialize;

pub use chat::{
    AssistantMessage, Chat, ChatChoice, ChatChunkChoice, ChatCompletion, ChatCompletionChunk, Delta,
};
pub use completion::{Completion, CompletionChoice, CompletionChunk, CompletionChunkChoice, Text};
pub(crate) use shape::Answer;
pub use shape::Shape;

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FinishReason {
    /// The model ended it, or a stop token or stop string was met.
    Stop,
    /// `max_tokens` or the end of the context was reached.
    Length,
    /// It was aborted; this is what there was by then.
    Abort,
}

impl From<foretoken_decode::FinishReason> for FinishReason {
    fn from(reason: foretoken_decode::FinishReason) -> Self {
        match reason {
            foretoken_decode::FinishReason::Stop => FinishReason::Stop,
            foretoken_decode::FinishReason::Length => FinishReason::Length,
        }
    }
}

/// What a request cost, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens generated: the token or the stop string that ended the answer included.
    pub completion_tokens: usize,
    /// Their sum.
    pub total_tokens: usize,
}

/// What every chunk and response of one request has in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Header {
    /// Unique to the request, the same in all its chunks.
    pub id: String,
    /// `chat.completion`, `chat.completion.chunk` or `text_completion`.
    pub object: &'static str,
    /// Seconds since 1970.
    pub created: u64,
    /// The served model's name.
    pub model: String,
    /// Names what the bits of an answer depend on beside request and weights: build, adapter, tier.
    pub system_fingerprint: String,
}

/// A piece of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Piece {
    /// Text that follows what came before.
    pub text: String,
    /// The tokens of the piece. Their text may come later, or not at all.
    pub token_ids: Vec<TokenId>,
    /// Why the answer ended, if it did.
    pub finish: Option<FinishReason>,
}
