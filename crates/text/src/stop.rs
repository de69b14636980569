//! Stop strings over streamed text.

use crate::TextError;

/// The most stop strings of a request.
pub const MAX_STOP_STRINGS: usize = 4;
/// The most characters of a stop string.
pub const MAX_STOP_CHARS: usize = 256;

/// Watches the text of one answer for stop strings.
///
/// **The match that is complete first wins**; of two that are complete at the same character, the longer. So the
/// result does not depend on how the text was cut into tokens. Nothing of the matched string is ever
/// released, and text is held back only while it could still be the beginning of a match.
#[derive(Debug, Clone)]
pub struct StopStrings {
    needles: Vec<Needle>,
    /// Text not yet released: the longest suffix of what was pushed that begins some stop string.
    held: String,
    stopped: Option<usize>,
}

/// What [`StopStrings::push`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopEvent {
    /// Text that is safe to show now.
    pub text: String,
    /// The index of the stop string that ended the answer, once one has.
    pub stopped: Option<usize>,
}

/// One stop string with its failure table (Knuth, Morris, Pratt).
#[derive(Debug, Clone)]
struct Needle {
    bytes: Vec<u8>,
    /// `failure[n]`: the longest proper prefix of `bytes[..n]` that is also its suffix.
    failure: Vec<usize>,
    /// How many bytes of the needle the text ends with.
    matched: usize,
}

impl Needle {
    fn new(text: &str) -> Self {
        let bytes = text.as_bytes().to_vec();
        let mut failure = vec![0; bytes.len() + 1];
        let mut matched = 0;
        for end in 1..bytes.len() {
            while matched > 0 && bytes[matched] != bytes[end] {
                matched = failure[matched];
            }
            if bytes[matched] == bytes[end] {
                matched += 1;
            }
            failure[end + 1] = matched;
        }
        Self {
            bytes,
            failure,
            matched: 0,
        }
    }

    /// Takes one byte of text; true when the whole needle has been seen.
    fn advance(&mut self, byte: u8) -> bool {
        while self.matched > 0 && self.bytes.get(self.matched) != Some(&byte) {
            self.matched = self.failure[self.matched];
        }
        if self.bytes.get(self.matched) == Some(&byte) {
            self.matched += 1;
        }
        self.matched == self.bytes.len()
    }
}

impl StopStrings {
    /// Up to [`MAX_STOP_STRINGS`] strings of 1 to [`MAX_STOP_CHARS`] characters; none is allowed too.
    pub fn new(strings: Vec<String>) -> Result<Self, TextError> {
        if strings.len() > MAX_STOP_STRINGS {
            return Err(TextError::TooManyStopStrings {
                found: strings.len() as u64,
                limit: MAX_STOP_STRINGS as u64,
            });
        }
        for (index, string) in strings.iter().enumerate() {
            let chars = string.chars().count();
            if !(1..=MAX_STOP_CHARS).contains(&chars) {
                return Err(TextError::StopStringLength {
                    index: index as u64,
                    chars: chars as u64,
                    limit: MAX_STOP_CHARS as u64,
                });
            }
        }
        Ok(Self {
            needles: strings.iter().map(|string| Needle::new(string)).collect(),
            held: String::new(),
            stopped: None,
        })
    }

    /// Takes the next piece of text. After a stop nothing more comes out.
    pub fn push(&mut self, text: &str) -> StopEvent {
        if self.stopped.is_some() {
            return self.event(String::new());
        }
        for (at, character) in text.char_indices() {
            let end = at + character.len_utf8();
            let mut complete: Option<(usize, usize)> = None; // (length, index)
            for (index, needle) in self.needles.iter_mut().enumerate() {
                let mut whole = false;
                for byte in &text.as_bytes()[at..end] {
                    whole = needle.advance(*byte);
                }
                let length = needle.bytes.len();
                if whole && complete.is_none_or(|(longest, _)| length > longest) {
                    complete = Some((length, index));
                }
            }
            if let Some((length, index)) = complete {
                let mut released = std::mem::take(&mut self.held);
                released.push_str(&text[..end]);
                released.truncate(released.len().saturating_sub(length));
                self.stopped = Some(index);
                return self.event(released);
            }
        }
        let mut released = std::mem::take(&mut self.held);
        released.push_str(text);
        let waiting = self
            .needles
            .iter()
            .map(|needle| needle.matched)
            .max()
            .unwrap_or(0);
        self.held = released.split_off(released.len().saturating_sub(waiting));
        self.event(released)
    }

    /// Ends the answer: the text still held back, since no match can follow; empty after a stop.
    pub fn finish(&mut self) -> String {
        for needle in &mut self.needles {
            needle.matched = 0;
        }
        std::mem::take(&mut self.held)
    }

    fn event(&self, text: String) -> StopEvent {
        StopEvent {
            text,
            stopped: self.stopped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stops(strings: &[&str]) -> StopStrings {
        StopStrings::new(strings.iter().map(|s| s.to_string()).collect()).unwrap()
    }

    /// The definition, with nothing held and nothing streamed.
    fn naive(text: &str, strings: &[&str]) -> (String, Option<usize>) {
        for (at, character) in text.char_indices() {
            let seen = &text[..at + character.len_utf8()];
            let mut found: Option<(usize, usize)> = None;
            for (index, string) in strings.iter().enumerate() {
                if seen.ends_with(string) && found.is_none_or(|(length, _)| string.len() > length) {
                    found = Some((string.len(), index));
                }
            }
            if let Some((length, index)) = found {
                return (seen[..seen.len() - length].to_string(), Some(index));
            }
        }
        (text.to_string(), None)
    }

    #[test]
    fn limits_are_tested_below_at_and_above() {
        for (count, ok) in [(0, true), (3, true), (4, true), (5, false)] {
            assert_eq!(StopStrings::new(vec!["x".into(); count]).is_ok(), ok);
        }
        // Characters, not bytes.
        for (chars, ok) in [
            (0, false),
            (1, true),
            (255, true),
            (256, true),
            (257, false),
        ] {
            let made = StopStrings::new(vec!["é".repeat(chars)]);
            assert_eq!(made.is_ok(), ok, "{chars}");
        }
        assert_eq!(
            StopStrings::new(vec!["a".into(), String::new()]).unwrap_err(),
            TextError::StopStringLength {
                index: 1,
                chars: 0,
                limit: 256
            }
        );
    }

    #[test]
    fn a_match_across_pieces_is_found_and_never_shown() {
        let mut watch = stops(&["\nUser:"]);
        let shown = |event: StopEvent| (event.text, event.stopped);
        assert_eq!(shown(watch.push("Hi\nUs")), ("Hi".into(), None));
        assert_eq!(shown(watch.push("e")), (String::new(), None));
        assert_eq!(shown(watch.push("r: more")), (String::new(), Some(0)));
        assert_eq!(shown(watch.push("even more")), (String::new(), Some(0)));
        assert_eq!(watch.finish(), "");
    }

    #[test]
    fn text_is_released_as_soon_as_it_cannot_match() {
        let mut watch = stops(&["aab"]);
        assert_eq!(watch.push("aa").text, "");
        // "aaa": the first a can no longer begin a match, the last two can.
        assert_eq!(watch.push("a").text, "a");
        assert_eq!(watch.push("c").text, "aac");
        assert_eq!(watch.push("a").text, "");
        assert_eq!(watch.finish(), "a");
    }

    #[test]
    fn random_texts_and_splits_equal_the_naive_search() {
        let mut state = 7_u64;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        // é and è share their first byte; a and b make overlaps likely.
        let alphabet = ['a', 'b', 'é', 'è', '😀'];
        for _ in 0..40_000 {
            let mut word = |longest: usize, shortest: usize| -> String {
                (0..shortest + random(longest))
                    .map(|_| alphabet[random(5).min(random(5))])
                    .collect()
            };
            let strings: Vec<String> = (0..4).map(|_| word(4, 1)).collect();
            let text = word(24, 0);
            let strings: Vec<&str> = strings.iter().map(String::as_str).take(random(5)).collect();
            let mut watch = stops(&strings);
            let mut shown = String::new();
            let mut stopped = None;
            let mut pushed = String::new();
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let chars = 1 + random(4);
                let cut = rest
                    .char_indices()
                    .nth(chars)
                    .map_or(rest.len(), |(at, _)| at);
                let event = watch.push(&rest[..cut]);
                pushed.push_str(&rest[..cut]);
                shown.push_str(&event.text);
                stopped = event.stopped;
                if stopped.is_none() {
                    // Nothing is held that could not begin a stop string.
                    let held = pushed.strip_prefix(shown.as_str()).unwrap();
                    assert!(
                        held.is_empty()
                            || strings
                                .iter()
                                .any(|s| s.len() > held.len() && s.starts_with(held))
                    );
                }
                rest = &rest[cut..];
            }
            shown.push_str(&watch.finish());
            assert_eq!(
                (shown, stopped),
                naive(&text, &strings),
                "{text:?} {strings:?}"
            );
        }
    }
}
