//! Chat completions.

use foretoken_core::TokenId;
use serde::Serialize;

use super::{
    Answer, ChatLogprobs, FinishReason, Header, Metrics, Piece, Provenance, Shape, ToolCall, Usage,
    Wants, provenance,
};

/// The shape of `/v1/chat/completions`.
#[derive(Debug)]
pub enum Chat {}

/// `chat.completion`.
#[derive(Debug, Clone, Serialize)]
pub struct ChatCompletion {
    /// Id, time, model.
    #[serde(flatten)]
    pub header: Header,
    /// One entry a choice.
    pub choices: Vec<ChatChoice>,
    /// Tokens read and written.
    pub usage: Usage,
    /// How it was made, where the engine collects that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
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
    /// Null unless asked for.
    pub logprobs: Option<ChatLogprobs>,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// Its tokens; only where `return_token_ids` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<TokenId>>,
    /// Where each came from; only where `return_token_provenance` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_provenance: Option<Vec<Provenance>>,
}

/// The model's message.
#[derive(Debug, Clone, Serialize)]
pub struct AssistantMessage {
    /// `assistant`.
    pub role: &'static str,
    /// Its text, without what ended it, and without reasoning and calls.
    pub content: String,
    /// Its reasoning, where it marked some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// The tools it calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ChatToolCall>,
    /// Always null: nothing here refuses.
    pub refusal: Option<()>,
}

/// A call of a tool.
#[derive(Debug, Clone, Serialize)]
pub struct ChatToolCall {
    /// Its number, in a chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// What the tool's answer refers to.
    pub id: String,
    /// `function`.
    pub r#type: &'static str,
    /// What is called.
    pub function: CalledFunction,
}

/// A function and its arguments.
#[derive(Debug, Clone, Serialize)]
pub struct CalledFunction {
    /// Its name.
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
}

impl ChatToolCall {
    /// Ids are one in a stream and in the whole answer: they follow from the request's.
    fn new(header: &Header, choice: u32, call: ToolCall, in_chunk: bool) -> Self {
        let request = header.id.rsplit('-').next().unwrap_or_default();
        Self {
            index: in_chunk.then_some(call.number),
            id: format!("call-{request}-{choice}-{}", call.number),
            r#type: "function",
            function: CalledFunction {
                name: call.name,
                arguments: call.arguments,
            },
        }
    }
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
    /// How it was made, beside the usage, where the engine collects that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
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
    /// Null unless asked for.
    pub logprobs: Option<ChatLogprobs>,
    /// Why it ended; null until it did.
    pub finish_reason: Option<FinishReason>,
    /// The part's tokens; only where `return_token_ids` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<TokenId>>,
    /// Where each came from; only where `return_token_provenance` asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_provenance: Option<Vec<Provenance>>,
}

/// What a chunk adds to the message.
#[derive(Debug, Clone, Serialize)]
pub struct Delta {
    /// `assistant`, in the first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// Text that follows what came before.
    pub content: String,
    /// Reasoning that follows what came before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Tools that are called now, each whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ChatToolCall>,
}

impl Shape for Chat {
    type Response = ChatCompletion;
    type Chunk = ChatCompletionChunk;
    const ID_PREFIX: &'static str = "chatcmpl";
    const OBJECTS: [&'static str; 2] = ["chat.completion", "chat.completion.chunk"];
    const HAS_OPENING: bool = true;

    fn opening(
        header: Header,
        index: u32,
        prompt_token_ids: Option<Vec<TokenId>>,
    ) -> ChatCompletionChunk {
        ChatCompletionChunk {
            header,
            choices: vec![ChatChunkChoice {
                index,
                delta: Delta {
                    role: Some("assistant"),
                    content: String::new(),
                    reasoning_content: None,
                    tool_calls: Vec::new(),
                },
                logprobs: None,
                finish_reason: None,
                token_ids: None,
                token_provenance: None,
            }],
            usage: None,
            metrics: None,
            prompt_token_ids,
        }
    }

    fn chunk(
        header: Header,
        piece: Piece,
        wants: Wants,
        prompt_token_ids: Option<Vec<TokenId>>,
    ) -> ChatCompletionChunk {
        let token_provenance = provenance(&piece, wants);
        let calls = piece.tool_calls.into_iter();
        let tool_calls = calls.map(|call| ChatToolCall::new(&header, piece.index, call, true));
        let tool_calls = tool_calls.collect();
        ChatCompletionChunk {
            header,
            choices: vec![ChatChunkChoice {
                index: piece.index,
                token_provenance,
                delta: Delta {
                    role: None,
                    content: piece.text,
                    reasoning_content: some(piece.reasoning),
                    tool_calls,
                },
                logprobs: wants.logprobs.then(|| ChatLogprobs::new(piece.logprobs)),
                finish_reason: piece.finish,
                token_ids: wants.token_ids.then_some(piece.token_ids),
            }],
            usage: None,
            metrics: None,
            prompt_token_ids,
        }
    }

    fn usage(header: Header, usage: Usage, metrics: Option<Metrics>) -> ChatCompletionChunk {
        ChatCompletionChunk {
            header,
            choices: Vec::new(),
            usage: Some(usage),
            metrics,
            prompt_token_ids: None,
        }
    }

    fn response(header: Header, answer: Answer) -> ChatCompletion {
        let wants = answer.wants;
        let choices = answer.choices.into_iter().map(|choice| ChatChoice {
            index: choice.index,
            token_provenance: provenance(&choice, wants),
            message: AssistantMessage {
                role: "assistant",
                content: choice.text,
                reasoning_content: some(choice.reasoning),
                tool_calls: (choice.tool_calls.into_iter())
                    .map(|call| ChatToolCall::new(&header, choice.index, call, false))
                    .collect(),
                refusal: None,
            },
            logprobs: wants.logprobs.then(|| ChatLogprobs::new(choice.logprobs)),
            finish_reason: choice.finish.unwrap_or(FinishReason::Abort),
            token_ids: wants.token_ids.then_some(choice.token_ids),
        });
        let choices = choices.collect();
        ChatCompletion {
            header,
            choices,
            usage: answer.usage,
            metrics: answer.metrics,
            prompt_token_ids: answer.prompt_token_ids,
        }
    }
}

/// Text that is there.
fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
