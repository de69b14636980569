//! Text completions.

use foretoken_core::TokenId;
use serde::Serialize;

use super::{
    Answer, CompletionLogprobs, FinishReason, Header, Metrics, Piece, Provenance, Shape, Usage,
    Wants, provenance,
};

/// The shape of `/v1/completions`.
#[derive(Debug)]
pub enum Text {}

/// `text_completion`.
#[derive(Debug, Clone, Serialize)]
pub struct Completion {
    /// Id, time, model.
    #[serde(flatten)]
    pub header: Header,
    /// One entry a choice.
    pub choices: Vec<CompletionChoice>,
    /// Tokens read and written.
    pub usage: Usage,
    /// How it was made, where the engine collects that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    /// The prompt as the model read it; only where `return_token_ids` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<TokenId>>,
}

/// One continuation.
#[derive(Debug, Clone, Serialize)]
pub struct CompletionChoice {
    /// Its number.
    pub index: u32,
    /// Its text, without what ended it.
    pub text: String,
    /// Null unless asked for.
    pub logprobs: Option<CompletionLogprobs>,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// Its tokens; only where `return_token_ids` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<TokenId>>,
    /// Where each came from; only where `return_token_provenance` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_provenance: Option<Vec<Provenance>>,
}

/// A part of a streamed `text_completion`.
#[derive(Debug, Clone, Serialize)]
pub struct CompletionChunk {
    /// Id, time, model.
    #[serde(flatten)]
    pub header: Header,
    /// One entry; none in the chunk with the usage.
    pub choices: Vec<CompletionChunkChoice>,
    /// In the last chunk, where `stream_options.include_usage` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// How it was made, beside the usage, where the engine collects that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    /// In the first chunk, where `return_token_ids` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<TokenId>>,
}

/// A part of one continuation.
#[derive(Debug, Clone, Serialize)]
pub struct CompletionChunkChoice {
    /// The continuation's number.
    pub index: u32,
    /// Text that follows what came before.
    pub text: String,
    /// Null unless asked for.
    pub logprobs: Option<CompletionLogprobs>,
    /// Why it ended; null until it did.
    pub finish_reason: Option<FinishReason>,
    /// The part's tokens; only where `return_token_ids` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<TokenId>>,
    /// Where each came from; only where `return_token_provenance` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_provenance: Option<Vec<Provenance>>,
}

impl Shape for Text {
    type Response = Completion;
    type Chunk = CompletionChunk;
    const ID_PREFIX: &'static str = "cmpl";
    const OBJECTS: [&'static str; 2] = ["text_completion", "text_completion"];
    const HAS_OPENING: bool = false;

    fn opening(
        header: Header,
        index: u32,
        prompt_token_ids: Option<Vec<TokenId>>,
    ) -> CompletionChunk {
        let piece = Piece {
            index,
            ..Piece::default()
        };
        Self::chunk(header, piece, Wants::NOTHING, prompt_token_ids)
    }

    fn chunk(
        header: Header,
        piece: Piece,
        wants: Wants,
        prompt_token_ids: Option<Vec<TokenId>>,
    ) -> CompletionChunk {
        CompletionChunk {
            header,
            choices: vec![CompletionChunkChoice {
                index: piece.index,
                token_provenance: provenance(&piece, wants),
                text: piece.text,
                logprobs: wants
                    .logprobs
                    .then(|| CompletionLogprobs::new(piece.logprobs)),
                finish_reason: piece.finish,
                token_ids: wants.token_ids.then_some(piece.token_ids),
            }],
            usage: None,
            metrics: None,
            prompt_token_ids,
        }
    }

    fn usage(header: Header, usage: Usage, metrics: Option<Metrics>) -> CompletionChunk {
        CompletionChunk {
            header,
            choices: Vec::new(),
            usage: Some(usage),
            metrics,
            prompt_token_ids: None,
        }
    }

    fn response(header: Header, answer: Answer) -> Completion {
        let wants = answer.wants;
        let choices = answer.choices.into_iter().map(|choice| CompletionChoice {
            index: choice.index,
            token_provenance: provenance(&choice, wants),
            text: choice.text,
            logprobs: wants
                .logprobs
                .then(|| CompletionLogprobs::new(choice.logprobs)),
            finish_reason: choice.finish.unwrap_or(FinishReason::Abort),
            token_ids: wants.token_ids.then_some(choice.token_ids),
        });
        Completion {
            header,
            choices: choices.collect(),
            usage: answer.usage,
            metrics: answer.metrics,
            prompt_token_ids: answer.prompt_token_ids,
        }
    }
}
