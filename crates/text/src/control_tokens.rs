//! Finding the spelling of control tokens in text.

use crate::TextError;

/// The longest spelling that is looked for, in bytes. Real ones have fewer than 64.
pub(crate) const MAX_CONTROL_BYTES: usize = 256;

/// The control tokens of a vocabulary, or its user-defined ones, sorted by spelling.
#[derive(Clone, Default)]
pub(crate) struct ControlTokens {
    sorted: Vec<(Box<str>, u32)>,
}

/// A piece of text: ordinary, or the spelling of a control token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span<'a> {
    Ordinary(&'a str),
    Control(u32),
}

impl ControlTokens {
    /// From (spelling, id) in ascending order of id; of equal spellings the lowest id wins.
    pub(crate) fn new<'a>(tokens: impl Iterator<Item = (&'a str, u32)>) -> Result<Self, TextError> {
        let mut sorted: Vec<(Box<str>, u32)> = Vec::new();
        for (spelling, id) in tokens {
            if spelling.len() > MAX_CONTROL_BYTES {
                return Err(TextError::ControlTokenTooLong {
                    id,
                    bytes: u64::try_from(spelling.len()).unwrap_or(u64::MAX),
                    limit: MAX_CONTROL_BYTES as u64,
                });
            }
            if !spelling.is_empty() {
                sorted.push((spelling.into(), id));
            }
        }
        sorted.sort();
        sorted.dedup_by(|later, earlier| later.0 == earlier.0);
        Ok(Self { sorted })
    }

    /// Those that take two characters or more, in lower case.
    ///
    /// A mark can be put inside those; a control token of one character is never taken from a chat.
    pub(crate) fn folded(&self) -> Self {
        let mut sorted: Vec<(Box<str>, u32)> = self
            .multi_character()
            .sorted
            .into_iter()
            .map(|(spelling, id)| (spelling.to_ascii_lowercase().into(), id))
            .collect();
        sorted.sort();
        sorted.dedup_by(|later, earlier| later.0 == earlier.0);
        Self { sorted }
    }

    /// Those that take two characters or more.
    pub(crate) fn multi_character(&self) -> Self {
        Self {
            sorted: self
                .sorted
                .iter()
                .filter(|(spelling, _)| spelling.chars().nth(1).is_some())
                .cloned()
                .collect(),
        }
    }

    pub(crate) fn spellings(&self) -> impl Iterator<Item = &str> {
        self.sorted.iter().map(|(spelling, _)| &**spelling)
    }

    /// The token with this spelling.
    pub(crate) fn id(&self, spelling: &str) -> Option<u32> {
        let at = self
            .sorted
            .binary_search_by(|(known, _)| (**known).cmp(spelling));
        self.sorted.get(at.ok()?).map(|(_, id)| *id)
    }

    /// Spellings and ids, by spelling.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.sorted.iter().map(|(spelling, id)| (&**spelling, *id))
    }

    /// How a control token is spelled; of several with one spelling only the lowest id is known.
    pub(crate) fn spelling(&self, id: u32) -> Option<&str> {
        let mut tokens = self.sorted.iter();
        tokens
            .find(|(_, control)| *control == id)
            .map(|(spelling, _)| &**spelling)
    }

    /// The longest control token that `text` begins with: its length in bytes and its id.
    pub(crate) fn longest_at(&self, text: &[u8]) -> Option<(usize, u32)> {
        // The spellings that share the first `depth` bytes with the text are neighbours; each
        // byte narrows them down by two binary searches.
        let mut candidates = &self.sorted[..];
        let mut longest = None;
        for (depth, byte) in text.iter().enumerate() {
            let from = candidates
                .partition_point(|(spelling, _)| spelling.as_bytes().get(depth) < Some(byte));
            candidates = candidates.get(from..)?;
            let to = candidates
                .partition_point(|(spelling, _)| spelling.as_bytes().get(depth) <= Some(byte));
            candidates = candidates.get(..to)?;
            match candidates.first() {
                None => break,
                Some((spelling, id)) if spelling.len() == depth + 1 => {
                    longest = Some((depth + 1, *id))
                }
                Some(_) => {}
            }
        }
        longest
    }

    /// Cuts a text at its control tokens, from the left, the longest first.
    pub(crate) fn spans<'a>(&self, text: &'a str) -> Vec<Span<'a>> {
        let mut spans = Vec::new();
        let mut ordinary_from = 0;
        let mut at = 0;
        while at < text.len() {
            let Some((length, id)) = self.longest_at(&text.as_bytes()[at..]) else {
                at += 1;
                continue;
            };
            if ordinary_from < at {
                spans.push(Span::Ordinary(&text[ordinary_from..at]));
            }
            spans.push(Span::Control(id));
            at += length;
            ordinary_from = at;
        }
        if ordinary_from < text.len() {
            spans.push(Span::Ordinary(&text[ordinary_from..]));
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wins_and_of_equal_spellings_the_lowest_id() {
        let tokens = [("<a>", 7), ("<a>b", 8), ("é", 9), ("<a>", 10), ("", 11)];
        let control = ControlTokens::new(tokens.into_iter()).unwrap();
        assert_eq!(
            control.spans("x<a><a>bé<a"),
            [
                Span::Ordinary("x"),
                Span::Control(7),
                Span::Control(8),
                Span::Control(9),
                Span::Ordinary("<a"),
            ]
        );
        assert_eq!(control.spans(""), []);
    }

    #[test]
    fn spellings_are_limited_in_length() {
        for (bytes, ok) in [(255, true), (256, true), (257, false)] {
            let spelling = "x".repeat(bytes);
            assert_eq!(
                ControlTokens::new([(&*spelling, 0)].into_iter()).is_ok(),
                ok
            );
        }
    }
}
