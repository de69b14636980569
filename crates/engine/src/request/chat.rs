//! `POST /v1/chat/completions`.

use foretoken_core::sampling::MAX_TOP_LOGPROBS;
use serde_json::{Value, json};

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
        let mut params = Params::parse(&mut fields, limits, true)?;
        let logprobs = fields.flag("logprobs")?;
        let top = fields.integer("top_logprobs", 0, MAX_TOP_LOGPROBS as u32)?;
        if top.is_some() && !logprobs {
            return Err(invalid(
                "top_logprobs",
                "`top_logprobs` is only taken together with `logprobs: true`",
            ));
        }
        params.logprobs = logprobs.then_some(top.unwrap_or(0));
        neutral_only(&mut fields)?;
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

/// Parameters whose default value clients like to spell out; any other value is refused.
fn neutral_only(fields: &mut Fields<'_>) -> Result<(), Error> {
    for (field, neutral) in [
        ("response_format", json!({"type": "text"})),
        ("tool_choice", json!("none")),
        ("modalities", json!(["text"])),
    ] {
        let value = fields.optional(field);
        if value.is_some_and(|value| *value != neutral) {
            return Err(invalid(
                field,
                format!("`{field}` is not supported: leave it out, or pass {neutral}"),
            ));
        }
    }
    Ok(())
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
