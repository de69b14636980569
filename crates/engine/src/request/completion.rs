//! `POST /v1/completions`: raw text in, its continuation out.

use foretoken_core::TokenId;
use foretoken_core::sampling::MAX_TOP_LOGPROBS;
use serde_json::Value;

use super::fields::{Fields, integer, invalid, kind};
use super::{Params, RequestLimits};
use crate::Error;

/// What a completion continues.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// Text, in which the spellings of control tokens are control tokens: it is the prompt as the model
    /// reads it, not what somebody says.
    Text(String),
    /// Tokens, taken as they are.
    Tokens(Vec<TokenId>),
}

/// A text completion request, validated: whoever holds one can run it.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletionRequest {
    pub(crate) prompt: Prompt,
    pub(crate) params: Params,
}

impl CompletionRequest {
    /// Reads and validates a request body.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] naming the field, its value or range, and what is taken.
    pub fn parse(body: &Value, limits: &RequestLimits) -> Result<Self, Error> {
        let mut fields = Fields::new(body, "")?;
        let prompt = prompt(fields.required("prompt")?, limits)?;
        let mut params = Params::parse(&mut fields, limits, false)?;
        params.logprobs = fields.integer("logprobs", 0, MAX_TOP_LOGPROBS as u32)?;
        if fields.flag("echo")? {
            return Err(invalid(
                "echo",
                "`echo` is not supported: leave it out, or pass false",
            ));
        }
        fields.finish()?;
        Ok(Self { prompt, params })
    }

    /// What to continue.
    pub fn prompt(&self) -> &Prompt {
        &self.prompt
    }

    /// Whether the answer is wanted chunk by chunk.
    pub fn stream(&self) -> bool {
        self.params.stream
    }
}

fn prompt(value: &Value, limits: &RequestLimits) -> Result<Prompt, Error> {
    match value {
        Value::String(text) => Ok(Prompt::Text(text.clone())),
        Value::Array(values) if values.iter().any(Value::is_string) => match &values[..] {
            [Value::String(text)] => Ok(Prompt::Text(text.clone())),
            _ => Err(invalid(
                "prompt",
                "`prompt` has several entries that are no token ids: one text a request is taken",
            )),
        },
        Value::Array(values) => {
            let tokens = values
                .iter()
                .map(|value| integer(value, "prompt", 0, limits.vocab - 1));
            Ok(Prompt::Tokens(tokens.collect::<Result<_, _>>()?))
        }
        other => Err(invalid(
            "prompt",
            format!(
                "`prompt` must be a string or a list of token ids, not {}",
                kind(other)
            ),
        )),
    }
}
