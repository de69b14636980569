//! Cutting a rendered chat where its final message's content ends, so that the answer goes on from there.
//!
//! A template closes every message. So a character that occurs nowhere else is put behind the content, and what the template
//! writes after it is cut off. A space behind it tells whether the template trims contents: then what is left is trimmed too.

use serde_json::Value;

use crate::TextError;
use crate::protect::Guard;

/// The end that was put behind the final message's content.
pub(crate) struct OpenEnd {
    end: char,
    /// The content without its outer white space and without marks: it must be found again.
    content: String,
}

impl OpenEnd {
    /// Puts the end behind the content of `message`: a string, or the last part with a text.
    pub(crate) fn put(message: &mut Value, guard: &Guard<'_>) -> Result<Self, TextError> {
        let text = match &mut message["content"] {
            Value::Array(parts) => parts.iter_mut().rev().find_map(|part| part.get_mut("text")),
            content => Some(content),
        };
        let Some(Value::String(text)) = text else {
            return Err(Self::absent());
        };
        let end = guard.end().ok_or(TextError::NoFreeMark)?;
        let content = text.replace(guard.mark(), "").trim().to_owned();
        text.push(end);
        text.push(' ');
        Ok(Self { end, content })
    }

    /// What is said where there is nothing to continue.
    pub(crate) fn absent() -> TextError {
        TextError::NothingToContinue {
            reason: "the final message has no text",
        }
    }

    /// The part of `marked` before the last end.
    pub(crate) fn cut<'m>(&self, marked: &'m str, mark: char) -> Result<&'m str, TextError> {
        let lost = TextError::NothingToContinue {
            reason: "the chat template does not show the final message as it is",
        };
        let at = marked.rfind(self.end).ok_or_else(|| lost.clone())?;
        if !marked.replace(mark, "").contains(&self.content) {
            return Err(lost);
        }
        let (kept, after) = marked.split_at(at);
        if after[self.end.len_utf8()..].starts_with(' ') {
            Ok(kept)
        } else {
            Ok(kept.trim_end_matches(|letter: char| letter == mark || letter.is_whitespace()))
        }
    }
}
