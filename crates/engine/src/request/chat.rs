//! `POST /v1/chat/completions`.

use foretoken_core::sampling::MAX_TOP_LOGPROBS;
use foretoken_text::ChatMessage;
use serde_json::{Map, Value, json};

use super::fields::{Fields, invalid, kind, list};
use super::messages::messages;
use super::tools::tools;
use super::{Params, RequestLimits};
use crate::Error;

/// Variables of a template that requests set otherwise, or not at all.
const NOT_FOR_KWARGS: [&str; 12] = [
    "messages",
    "tools",
    "documents",
    "add_generation_prompt",
    "continue_final_message",
    "chat_template",
    "tokenize",
    "bos_token",
    "eos_token",
    "raise_exception",
    "strftime_now",
    "namespace",
];

/// A chat completion request, validated: whoever holds one can run it.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatCompletionRequest {
    pub(crate) messages: Vec<ChatMessage>,
    /// As they were given; none if there are none.
    pub(crate) tools: Vec<Value>,
    /// Whether an answer may call them.
    pub(crate) calls_tools: bool,
    pub(crate) documents: Vec<Value>,
    /// `chat_template_kwargs`.
    pub(crate) variables: Map<String, Value>,
    pub(crate) add_generation_prompt: bool,
    pub(crate) continue_final_message: bool,
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
        let (tools, calls_tools) = tools(&mut fields)?;
        let documents = documents(&mut fields)?;
        let variables = variables(&mut fields)?;
        let continue_final_message = fields.flag("continue_final_message")?;
        let add_generation_prompt = fields.optional_flag("add_generation_prompt")?;
        if continue_final_message && add_generation_prompt == Some(true) {
            return Err(invalid(
                "continue_final_message",
                "`continue_final_message` and `add_generation_prompt` are both true: the final message is either \
                 continued or answered",
            ));
        }
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
        Ok(Self {
            messages,
            tools,
            calls_tools,
            documents,
            variables,
            add_generation_prompt: add_generation_prompt.unwrap_or(!continue_final_message),
            continue_final_message,
            params,
        })
    }

    /// The conversation.
    pub fn messages(&self) -> &[ChatMessage] {
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
        ("modalities", json!(["text"])),
        ("parallel_tool_calls", json!(true)),
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

/// `documents`: a list of objects, for templates that show them.
fn documents(fields: &mut Fields<'_>) -> Result<Vec<Value>, Error> {
    let Some(value) = fields.optional("documents") else {
        return Ok(Vec::new());
    };
    let documents = list(value, "documents")?;
    for (i, document) in documents.iter().enumerate() {
        Fields::new(document, &format!("documents[{i}]"))?;
    }
    Ok(documents.to_vec())
}

/// `chat_template_kwargs`: variables of the template, by their names.
fn variables(fields: &mut Fields<'_>) -> Result<Map<String, Value>, Error> {
    const NAME: &str = "chat_template_kwargs";
    let variables = match fields.optional(NAME) {
        None => return Ok(Map::new()),
        Some(Value::Object(variables)) => variables,
        Some(other) => {
            return Err(invalid(
                NAME,
                format!("`{NAME}` must be an object, not {}", kind(other)),
            ));
        }
    };
    for name in variables.keys() {
        let is_name = (1..=64).contains(&name.len())
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && (name.bytes()).all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name || NOT_FOR_KWARGS.contains(&name.as_str()) {
            let shown: String = name.chars().take(64).collect();
            return Err(invalid(
                NAME,
                format!(
                    "`{NAME}` has the key {shown:?}; keys are names of letters, digits and '_', and none of {}",
                    NOT_FOR_KWARGS.join(", ")
                ),
            ));
        }
    }
    Ok(variables.clone())
}
