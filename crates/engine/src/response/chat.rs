//! Chat completions.

use foretoken_core::TokenId;
use serde::Serialize;

use super::{Answer, FinishReason, Header, Piece, Shape, Usage};

/// The shape of `/v1/chat/completions`.
#[derive(Debug)]
pub enum Chat {}

/// `chat.completion`.
#[derive(Debug, Clone, Serialize)]
pub struct ChatCompletion {
    /// Id, time, model.
    #[serde(flatten)]
    pub header: Header,
    /// One entry.
    pub choices: Vec<ChatChoice>,
    /// Tokens read and written.
    pub usage: Usage,
    /// The prompt as the model read it; only where `return_token_ids` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<TokenId>>,
}

/// One answer.
#[derive(Debug, Clone, Serialize)]
pub struct ChatChoice {
    /// Its number.
    pub index: u32,
    /// What the model says.
    pub message: AssistantMessage,
    /// Always null: log probabilities are not supported yet.
    pub logprobs: Option<()>,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// Its tokens; only where `return_token_ids` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<TokenId>>,
}

/// The model's message.
#[derive(Debug, Clone, Serialize)]
pub struct AssistantMessage {
    /// `assistant`.
    pub role: &'static str,
    /// Its text, without what ended it.
    pub content: String,
    /// Always null: nothing here refuses.
    pub refusal: Option<()>,
}

/// `chat.completion.chunk`.
#[derive(Debug, Clone, Serialize)]
pub struct ChatCompletionChunk {
    /// Id, time, model.
    #[serde(flatten)]
    pub header: Header,
    /// One entry; none in the chunk with the usage.
    pub choices: Vec<ChatChunkChoice>,
    /// In the last chunk, where `stream_options.include_usage` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// In the first chunk, where `return_token_ids` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<TokenId>>,
}

/// A part of one answer.
#[derive(Debug, Clone, Serialize)]
pub struct ChatChunkChoice {
    /// The answer's number.
    pub index: u32,
    /// What is new.
    pub delta: Delta,
    /// Always null: log probabilities are not supported yet.
    pub logprobs: Option<()>,
    /// Why it ended; null until it did.
    pub finish_reason: Option<FinishReason>,
    /// The part's tokens; only where `return_token_ids` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<TokenId>>,
}

/// What a chunk adds to the message.
#[derive(Debug, Clone, Serialize)]
pub struct Delta {
    /// `assistant`, in the first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// Text that follows what came before.
    pub content: String,
}

impl Shape for Chat {
    type Response = ChatCompletion;
    type Chunk = ChatCompletionChunk;
    const ID_PREFIX: &'static str = "chatcmpl";
    const OBJECTS: [&'static str; 2] = ["chat.completion", "chat.completion.chunk"];
    const HAS_OPENING: bool = true;

    fn opening(header: Header, prompt_token_ids: Option<Vec<TokenId>>) -> ChatCompletionChunk {
        ChatCompletionChunk {
            header,
            choices: vec![ChatChunkChoice {
                index: 0,
                delta: Delta {
                    role: Some("assistant"),
                    content: String::new(),
                },
                logprobs: None,
                finish_reason: None,
                token_ids: None,
            }],
            usage: None,
            prompt_token_ids,
        }
    }

    fn chunk(
        header: Header,
        piece: Piece,
        with_ids: bool,
        prompt_token_ids: Option<Vec<TokenId>>,
    ) -> ChatCompletionChunk {
        ChatCompletionChunk {
            header,
            choices: vec![ChatChunkChoice {
                index: 0,
                delta: Delta {
                    role: None,
                    content: piece.text,
                },
                logprobs: None,
                finish_reason: piece.finish,
                token_ids: with_ids.then_some(piece.token_ids),
            }],
            usage: None,
            prompt_token_ids,
        }
    }

    fn usage(header: Header, usage: Usage) -> ChatCompletionChunk {
        ChatCompletionChunk {
            header,
            choices: Vec::new(),
            usage: Some(usage),
            prompt_token_ids: None,
        }
    }

    fn response(header: Header, answer: Answer) -> ChatCompletion {
        let (token_ids, prompt_token_ids) = answer.token_ids.unzip();
        ChatCompletion {
            header,
            choices: vec![ChatChoice {
                index: 0,
                message: AssistantMessage {
                    role: "assistant",
                    content: answer.text,
                    refusal: None,
                },
                logprobs: None,
                finish_reason: answer.finish,
                token_ids,
            }],
            usage: answer.usage,
            prompt_token_ids,
        }
    }
}
