//! From messages to the prompt's tokens.

use foretoken_core::{TokenId, since_unix_epoch};
use foretoken_text::{ChatMessage, RenderOptions, Tokenizer};

use crate::Error;
use crate::request::Message;

/// Renders the conversation with the model's own template, ready for the assistant's answer. The control
/// tokens are the template's alone: whatever a message spells stays text.
pub(crate) fn chat_prompt(
    tokenizer: &Tokenizer,
    messages: &[Message],
    context: u32,
) -> Result<Vec<TokenId>, Error> {
    let template = tokenizer.chat_template().map_err(Error::Template)?;
    let messages: Vec<ChatMessage> = messages
        .iter()
        .map(|message| ChatMessage {
            role: message.role.as_str().to_owned(),
            content: message.content.clone(),
            ..ChatMessage::default()
        })
        .collect();
    let options = RenderOptions {
        add_generation_prompt: true,
        tools: Vec::new(),
        context,
        now: i64::try_from(since_unix_epoch().as_secs()).ok(),
    };
    let rendered = template
        .render(&messages, &options)
        .map_err(Error::Template)?;
    Ok(tokenizer.encode_rendered(&rendered)?)
}
