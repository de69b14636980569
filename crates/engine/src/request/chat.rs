//! `POST /v1/chat/completions`.

use serde_json::Value;

use super::fields::{Fields, invalid, kind, list, text};
use super::{Params, RequestLimits};
use crate::Error;

/// The most messages of a request.
pub const MAX_MESSAGES: usize = 2048;

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions (`developer` is OpenAI's newer name for the same).
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// As templates know it.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said: text, in which special tokens mean nothing.
    pub content: String,
}

/// A chat completion request, validated: whoever holds one can run it.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatCompletionRequest {
    pub(crate) messages: Vec<Message>,
    pub(crate) params: Params,
}

impl ChatCompletionRequest {
    /// Reads and validates a request body.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] naming the field, its value or range, and what is taken.
    pub fn parse(body: &Value, limits: &RequestLimits) -> Result<Self, Error> {
        let mut fields = Fields::new(body, "")?;
        let messages = messages(fields.required("messages")?)?;
        let mut params = Params::parse(&mut fields, limits)?;
        let newer = fields.integer("max_completion_tokens", 1, limits.context)?;
        if let (Some(older), Some(newer)) = (params.max_tokens, newer)
            && older != newer
        {
            return Err(invalid(
                "max_tokens",
                format!(
                    "`max_tokens` is {older} and `max_completion_tokens` is {newer}: pass one of them"
                ),
            ));
        }
        params.max_tokens = newer.or(params.max_tokens);
        if fields.flag("logprobs")? {
            return Err(invalid(
                "logprobs",
                "`logprobs` is not supported yet: leave it out, or pass false",
            ));
        }
        fields.finish()?;
        Ok(Self { messages, params })
    }

    /// The conversation.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Whether the answer is wanted chunk by chunk.
    pub fn stream(&self) -> bool {
        self.params.stream
    }
}

fn messages(value: &Value) -> Result<Vec<Message>, Error> {
    let values = list(value, "messages")?;
    if values.is_empty() || values.len() > MAX_MESSAGES {
        let found = values.len();
        return Err(invalid(
            "messages",
            format!("`messages` has {found} entries, outside 1..={MAX_MESSAGES}"),
        ));
    }
    values
        .iter()
        .enumerate()
        .map(|(i, value)| message(value, &format!("messages[{i}]")))
        .collect()
}

fn message(value: &Value, path: &str) -> Result<Message, Error> {
    let mut fields = Fields::new(value, path)?;
    let name = fields.name("role");
    let role = match text(fields.required("role")?, &name)? {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        other => {
            let other: String = other.chars().take(64).collect();
            return Err(invalid(
                &name,
                format!("`{name}` is {other:?}; system, developer, user and assistant are taken"),
            ));
        }
    };
    let name = fields.name("content");
    let content = content(fields.required("content")?, &name)?;
    fields.finish()?;
    Ok(Message { role, content })
}

/// Content: a string, or a list of text parts, which are joined.
fn content(value: &Value, name: &str) -> Result<String, Error> {
    match value {
        Value::String(content) => Ok(content.clone()),
        Value::Array(parts) => parts
            .iter()
            .enumerate()
            .map(|(i, part)| {
                let mut fields = Fields::new(part, &format!("{name}[{i}]"))?;
                let type_name = fields.name("type");
                if text(fields.required("type")?, &type_name)? != "text" {
                    return Err(invalid(
                        &type_name,
                        format!("`{type_name}` must be \"text\"; nothing else is read"),
                    ));
                }
                let text_name = fields.name("text");
                let part = text(fields.required("text")?, &text_name)?;
                fields.finish()?;
                Ok(part)
            })
            .collect(),
        other => Err(invalid(
            name,
            format!(
                "`{name}` must be a string or a list of text parts, not {}",
                kind(other)
            ),
        )),
    }
}
