//! Text completions.

use foretoken_core::TokenId;
use serde::Serialize;

use super::{Answer, FinishReason, Header, Piece, Shape, Usage};

/// The shape of `/v1/completions`.
#[derive(Debug)]
pub enum Text {}

/// `text_completion`.
#[derive(Debug, Clone, Serialize)]
pub struct Completion {
    /// Id, time, model.
    #[serde(flatten)]
    pub header: Header,
    /// One entry.
    pub choices: Vec<CompletionChoice>,
    /// Tokens read and written.
    pub usage: Usage,
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
    /// Always null: log probabilities are not supported yet.
    pub logprobs: Option<()>,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// Its tokens; only where `return_token_ids` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<TokenId>>,
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
    /// Always null: log probabilities are not supported yet.
    pub logprobs: Option<()>,
    /// Why it ended; null until it did.
    pub finish_reason: Option<FinishReason>,
    /// The part's tokens; only where `return_token_ids` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<TokenId>>,
}

impl Shape for Text {
    type Response = Completion;
    type Chunk = CompletionChunk;
    const ID_PREFIX: &'static str = "cmpl";
    const OBJECTS: [&'static str; 2] = ["text_completion", "text_completion"];
    const HAS_OPENING: bool = false;

    fn opening(header: Header, prompt_token_ids: Option<Vec<TokenId>>) -> CompletionChunk {
        Self::chunk(header, Piece::default(), false, prompt_token_ids)
    }

    fn chunk(
        header: Header,
        piece: Piece,
        with_ids: bool,
        prompt_token_ids: Option<Vec<TokenId>>,
    ) -> CompletionChunk {
        CompletionChunk {
            header,
            choices: vec![CompletionChunkChoice {
                index: 0,
                text: piece.text,
                logprobs: None,
                finish_reason: piece.finish,
                token_ids: with_ids.then_some(piece.token_ids),
            }],
            usage: None,
            prompt_token_ids,
        }
    }

    fn usage(header: Header, usage: Usage) -> CompletionChunk {
        CompletionChunk {
            header,
            choices: Vec::new(),
            usage: Some(usage),
            prompt_token_ids: None,
        }
    }

    fn response(header: Header, answer: Answer) -> Completion {
        let (token_ids, prompt_token_ids) = answer.token_ids.unzip();
        Completion {
            header,
            choices: vec![CompletionChoice {
                index: 0,
                text: answer.text,
                logprobs: None,
                finish_reason: answer.finish,
                token_ids,
            }],
            usage: answer.usage,
            prompt_token_ids,
        }
    }
}
