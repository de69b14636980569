//! Answers in OpenAI's shapes.

mod chat;
mod completion;
mod logprobs;
mod metrics;
mod shape;

use foretoken_core::TokenId;
use foretoken_decode::TokenProvenance;
use serde::{Serialize, Serializer};

pub use chat::{
    AssistantMessage, CalledFunction, Chat, ChatChoice, ChatChunkChoice, ChatCompletion,
    ChatCompletionChunk, ChatToolCall, Delta,
};
pub use completion::{Completion, CompletionChoice, CompletionChunk, CompletionChunkChoice, Text};
pub use logprobs::{
    Alternative, ChatAlternative, ChatLogprobs, ChatTokenLogprob, CompletionLogprobs, TokenReport,
    TopLogprobs,
};
pub use metrics::{ForetokenMetrics, Metrics, SpeculativeDecoding, TimingMetrics};
pub use shape::{Answer, Shape, Wants};

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FinishReason {
    /// The model ended it, or a stop token or stop string was met.
    Stop,
    /// `max_tokens` or the end of the context was reached.
    Length,
    /// It called tools, and ended as with `stop`.
    #[serde(rename = "tool_calls")]
    ToolCalls,
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
    /// Tokens generated, of all choices: the token or the stop string that ended an answer included.
    pub completion_tokens: usize,
    /// Their sum.
    pub total_tokens: usize,
    /// More about the prompt's.
    pub prompt_tokens_details: PromptTokensDetails,
    /// More about the generated ones; only where the model marks its reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_tokens_details: Option<CompletionTokensDetails>,
}

/// More about the tokens of the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CompletionTokensDetails {
    /// Those of reasoning, the mark that ends it included.
    pub reasoning_tokens: usize,
}

/// More about the tokens of the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PromptTokensDetails {
    /// Those whose keys and values were there from a request before.
    pub cached_tokens: usize,
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

/// A piece of an answer, or the whole of one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Piece {
    /// The choice it belongs to.
    pub index: u32,
    /// Text that follows what came before.
    pub text: String,
    /// Reasoning that follows what came before; it comes before any text.
    pub reasoning: String,
    /// Tools that are called now.
    pub tool_calls: Vec<ToolCall>,
    /// The tokens of the piece. Their text may come later, or not at all.
    pub token_ids: Vec<TokenId>,
    /// How many bytes of `text` there were when each had come.
    pub text_ends: Vec<usize>,
    /// Where each came from; empty unless asked for.
    pub provenance: Vec<TokenProvenance>,
    /// What is reported of each; empty unless asked for.
    pub logprobs: Vec<TokenReport>,
    /// Why the answer ended, if it did.
    pub finish: Option<FinishReason>,
}

impl Piece {
    /// Whether there is more of it than tokens and an end.
    pub(crate) fn says_something(&self) -> bool {
        !(self.text.is_empty() && self.reasoning.is_empty() && self.tool_calls.is_empty())
    }

    /// Adds the piece that follows.
    pub(crate) fn append(&mut self, next: &Piece) {
        let ends = next.text_ends.iter().map(|end| self.text.len() + end);
        self.text_ends.extend(ends);
        self.text.push_str(&next.text);
        self.reasoning.push_str(&next.reasoning);
        self.tool_calls.extend_from_slice(&next.tool_calls);
        self.token_ids.extend_from_slice(&next.token_ids);
        self.provenance.extend_from_slice(&next.provenance);
        self.logprobs.extend_from_slice(&next.logprobs);
        self.finish = next.finish;
    }
}

/// A call of a tool, as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// Counts the answer's calls, from 0.
    pub number: u32,
    /// The function.
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
}

/// Where a token came from, by its name in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provenance(pub TokenProvenance);

impl Provenance {
    /// `prefill`, `plain`, `draft`, `recovered` or `bonus`.
    pub fn name(self) -> &'static str {
        match self.0 {
            TokenProvenance::Prefill => "prefill",
            TokenProvenance::Plain => "plain",
            TokenProvenance::Draft => "draft",
            TokenProvenance::Recovered => "recovered",
            TokenProvenance::Bonus => "bonus",
        }
    }
}

impl Serialize for Provenance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The provenance of a piece's tokens, where it was asked for.
fn provenance(piece: &Piece, wants: Wants) -> Option<Vec<Provenance>> {
    wants
        .provenance
        .then(|| piece.provenance.iter().copied().map(Provenance).collect())
}
