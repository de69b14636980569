//! From tokens to text that may be shown.

use foretoken_core::TokenId;
use foretoken_text::{Detokenizer, StopStrings, TextError, Tokenizer};

/// The text of one answer: whole characters only, and nothing that could still become a stop string.
pub(crate) struct TextStream {
    detokenizer: Detokenizer,
    stop: StopStrings,
    /// Tokens whose text is not searched for stop strings.
    unsearched: u32,
    /// Characters decoded so far, shown or not.
    characters: usize,
    /// Control tokens that are shown as they are spelled.
    spelled: Vec<(TokenId, &'static str)>,
}

impl TextStream {
    /// The first `min_tokens` tokens are not searched for stop strings. Of control tokens those `spelled` have a text.
    pub(crate) fn new(
        tokenizer: &Tokenizer,
        stop: &[String],
        min_tokens: u32,
        spelled: Vec<(TokenId, &'static str)>,
    ) -> Result<Self, TextError> {
        Ok(Self {
            detokenizer: tokenizer.detokenizer(),
            stop: StopStrings::new(stop.to_vec())?,
            unsearched: min_tokens,
            characters: 0,
            spelled,
        })
    }

    /// Characters decoded so far: where the next token's text begins.
    pub(crate) fn characters(&self) -> usize {
        self.characters
    }

    /// Appends what a token adds to the text; true if a stop string is now complete. Neither it nor
    /// anything later is text.
    pub(crate) fn push(&mut self, token: TokenId, out: &mut String) -> bool {
        let mut text = self.detokenizer.push(token);
        if let Some((_, spelling)) = self.spelled.iter().find(|(spelled, _)| *spelled == token) {
            text.push_str(spelling);
        }
        if self.unsearched > 0 {
            self.unsearched -= 1;
            self.characters += text.chars().count();
            out.push_str(&text);
            return false;
        }
        self.show(&text, out)
    }

    /// Appends what was held back, for no token follows; true if that completes a stop string.
    pub(crate) fn finish(&mut self, out: &mut String) -> bool {
        let text = self.detokenizer.finish();
        let stopped = self.show(&text, out);
        if !stopped {
            out.push_str(&self.stop.finish());
        }
        stopped
    }

    fn show(&mut self, text: &str, out: &mut String) -> bool {
        self.characters += text.chars().count();
        let event = self.stop.push(text);
        out.push_str(&event.text);
        event.stopped.is_some()
    }
}
