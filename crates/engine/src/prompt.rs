//! From a chat to the prompt's tokens, and what to look for in its answer.

use std::borrow::Cow;

use foretoken_core::{TokenId, since_unix_epoch};
use foretoken_text::{ChatMessage, RenderOptions, Tokenizer};
use serde_json::Value;

use crate::Error;
use crate::answer_parts::{Marks, THINK_CLOSES, THINK_OPENS, TOOL_CALL_OPENS};
use crate::request::ChatCompletionRequest;

/// Renders the conversation with the model's own template. The control tokens are the template's alone: whatever a message, a
/// tool or an argument spells stays text.
pub(crate) fn chat_prompt(
    tokenizer: &Tokenizer,
    request: &ChatCompletionRequest,
    context: u32,
) -> Result<(Vec<TokenId>, Marks), Error> {
    let template = tokenizer
        .chat_template_for(!request.tools.is_empty())
        .map_err(Error::Template)?;
    // A template that shows the model nothing of them would drop them in silence.
    for (name, given) in [
        ("tools", !request.tools.is_empty()),
        ("documents", !request.documents.is_empty()),
    ] {
        if given && !template.source().contains(name) {
            return Err(Error::InvalidRequest {
                param: Some(name.to_owned()),
                message: format!(
                    "`{name}` cannot be used with this model: its chat template does not show them to it"
                ),
            });
        }
    }
    let takes_parts = template.takes_parts();
    let knows_developers = template.source().contains("developer");
    let messages: Vec<ChatMessage> = (request.messages.iter())
        .map(|message| {
            let mut message = message.clone();
            if !takes_parts && message.content.is_array() {
                message.content = joined(&message.content).into_owned().into();
            }
            // OpenAI's newer name of the same.
            if message.role == "developer" && !knows_developers {
                message.role = "system".to_owned();
            }
            message
        })
        .collect();
    let options = RenderOptions {
        add_generation_prompt: request.add_generation_prompt,
        continue_final_message: request.continue_final_message,
        tools: request.tools.clone(),
        documents: request.documents.clone(),
        variables: request.variables.clone(),
        context,
        now: i64::try_from(since_unix_epoch().as_secs()).ok(),
    };
    let rendered = template
        .render(&messages, &options)
        .map_err(Error::Template)?;

    let last = request.messages.last().map(|message| &message.content);
    let last = last.map(joined).unwrap_or_default();
    let opens = |text: &str| text.trim_end().ends_with(THINK_OPENS);
    let mut marks = Marks::default();
    if is_token(tokenizer, THINK_CLOSES)? || template.source().contains(THINK_CLOSES) {
        marks.reasoning = true;
        if request.continue_final_message {
            let (opened, closed) = (last.rfind(THINK_OPENS), last.rfind(THINK_CLOSES));
            marks.in_reasoning = opened.is_some_and(|opened| closed.is_none_or(|at| at < opened));
            marks.in_content = !marks.in_reasoning && !last.trim().is_empty();
        } else {
            // What a person says at the very end opens nothing.
            let ends_with_it = rendered.text().trim_end().ends_with(last.trim_end());
            marks.in_reasoning = opens(rendered.text()) && !(ends_with_it && opens(&last));
        }
    }
    marks.tool_calls = request.calls_tools && template.source().contains(TOOL_CALL_OPENS);
    Ok((tokenizer.encode_rendered(&rendered)?, marks))
}

/// Whether the vocabulary spells a token so.
pub(crate) fn is_token(tokenizer: &Tokenizer, spelling: &str) -> Result<bool, Error> {
    Ok(tokenizer.encode(spelling, true)?.len() == 1)
}

/// A content as one string: its parts, one a line.
fn joined(content: &Value) -> Cow<'_, str> {
    match content {
        Value::String(text) => Cow::Borrowed(text),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            Cow::Owned(texts.collect::<Vec<_>>().join("\n"))
        }
        _ => Cow::Borrowed(""),
    }
}
