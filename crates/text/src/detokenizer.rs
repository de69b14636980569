//! Token ids to text while they arrive.

use std::sync::Arc;

use foretoken_core::TokenId;

use crate::bytes::TokenBytes;

/// Turns the ids of one answer into text, token by token.
///
/// What `push` and `finish` return, put together, equals decoding all ids at once. A character whose bytes are
/// spread over tokens is held back until it is whole (at most 3 bytes wait); bytes that
/// can no longer become a character come out at once as U+FFFD. Control tokens, and ids beyond the
/// vocabulary (an embedding may have more rows), have no text.
#[derive(Clone)]
pub struct Detokenizer {
    tokens: Arc<TokenBytes>,
    /// The beginning of a character: 0 to 3 bytes.
    pending: Vec<u8>,
}

impl Detokenizer {
    pub(crate) fn new(tokens: Arc<TokenBytes>) -> Self {
        Self {
            tokens,
            pending: Vec::new(),
        }
    }

    /// Takes the next id and returns the text that is now certain; often empty.
    pub fn push(&mut self, id: TokenId) -> String {
        let Some(bytes) = self.tokens.get(id) else {
            return String::new();
        };
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = self.pending.as_slice();
        // Each round takes the valid bytes and, if that was not all, what made them end.
        while let Err(error) = std::str::from_utf8(rest) {
            let (valid, invalid) = rest.split_at(error.valid_up_to());
            text.push_str(&String::from_utf8_lossy(valid));
            rest = invalid;
            let Some(length) = error.error_len() else {
                // The text ends within a character: wait for the rest of it.
                self.pending = rest.to_vec();
                return text;
            };
            text.push(char::REPLACEMENT_CHARACTER);
            rest = rest.get(length..).unwrap_or_default();
        }
        text.push_str(&String::from_utf8_lossy(rest));
        self.pending.clear();
        text
    }

    /// Ends the answer: bytes that still wait for the rest of their character become one U+FFFD.
    pub fn finish(&mut self) -> String {
        if self.pending.is_empty() {
            return String::new();
        }
        self.pending.clear();
        char::REPLACEMENT_CHARACTER.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A vocabulary of the 256 bytes, each its own token.
    fn bytes() -> Arc<TokenBytes> {
        let mut tokens = TokenBytes::with_capacity(256);
        for byte in 0..=255_u8 {
            tokens.push(&[byte]);
        }
        Arc::new(tokens)
    }

    fn stream(input: &[u8]) -> Vec<String> {
        let mut detokenizer = Detokenizer::new(bytes());
        let mut out: Vec<String> = input
            .iter()
            .map(|byte| detokenizer.push(u32::from(*byte)))
            .collect();
        out.push(detokenizer.finish());
        out
    }

    #[test]
    fn characters_come_out_whole() {
        assert_eq!(
            stream("a😀é".as_bytes()),
            ["a", "", "", "", "😀", "", "é", ""]
        );
    }

    #[test]
    fn a_byte_that_cannot_continue_is_not_held_back() {
        assert_eq!(stream(b"\xFFa"), ["\u{FFFD}", "a", ""]);
        assert_eq!(stream(b"\xF0\x9F\x98a"), ["", "", "", "\u{FFFD}a", ""]);
        // 0xED 0xA0 would be a surrogate: the second byte already decides.
        assert_eq!(stream(b"\xED\xA0"), ["", "\u{FFFD}\u{FFFD}", ""]);
    }

    #[test]
    fn an_unfinished_character_ends_as_one_replacement() {
        assert_eq!(stream(b"a\xF0\x9F"), ["a", "", "", "\u{FFFD}"]);
    }

    #[test]
    fn an_id_beyond_the_vocabulary_has_no_text() {
        let mut detokenizer = Detokenizer::new(bytes());
        assert_eq!(detokenizer.push(0xC3), "");
        assert_eq!(detokenizer.push(256), "");
        assert_eq!(detokenizer.push(u32::MAX), "");
        assert_eq!(detokenizer.push(0xA9), "é");
    }

    #[test]
    fn any_bytes_equal_the_lossy_decoding_of_the_whole() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        // Bytes that begin, continue, and break characters, more often than chance would.
        let favoured = [
            0x61, 0x80, 0xBF, 0xC3, 0xE2, 0x82, 0xAC, 0xED, 0xA0, 0xF0, 0x9F, 0xF4, 0xFF,
        ];
        for _ in 0..20_000 {
            let input: Vec<u8> = (0..random(12))
                .map(|_| match random(4) {
                    0 => random(256) as u8,
                    _ => favoured[random(favoured.len() as u64) as usize],
                })
                .collect();
            let parts = stream(&input);
            assert_eq!(
                parts.concat(),
                String::from_utf8_lossy(&input),
                "{input:x?}"
            );
        }
    }
}
