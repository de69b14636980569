//! The printable alphabet in which byte-level vocabularies spell bytes.
//!
//! 188 bytes are printable in Latin-1 and spell themselves; the other 68 (control characters, the
//! space, 0x7F..0xA0, 0xAD) are spelled U+0100, U+0101, … in ascending order. So a space is `Ġ` (U+0120) and a
//! newline `Ċ` (U+010A).

/// The letter of each byte, from byte 0 to byte 255.
pub fn byte_alphabet() -> impl Iterator<Item = char> {
    let mut next = 0x100_u32;
    (0..=255_u8).map(move |byte| {
        if spells_itself(byte) {
            char::from(byte)
        } else {
            let letter = char::from_u32(next).unwrap_or(char::REPLACEMENT_CHARACTER);
            next += 1;
            letter
        }
    })
}

fn spells_itself(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// From letters back to bytes.
pub(crate) struct ByteLetters {
    // U+0000..U+0143: every letter of the alphabet lies there.
    bytes: Vec<Option<u8>>,
}

impl ByteLetters {
    pub(crate) fn new() -> Self {
        let mut bytes = vec![None; 0x100 + 68];
        for (byte, letter) in (0..=255_u8).zip(byte_alphabet()) {
            if let Some(slot) = usize::try_from(u32::from(letter))
                .ok()
                .and_then(|letter| bytes.get_mut(letter))
            {
                *slot = Some(byte);
            }
        }
        Self { bytes }
    }

    /// The bytes a token spells; `None` when a character is outside the alphabet.
    pub(crate) fn spell(&self, token: &str) -> Option<Vec<u8>> {
        token
            .chars()
            .map(|letter| {
                let letter = usize::try_from(u32::from(letter)).ok()?;
                self.bytes.get(letter).copied().flatten()
            })
            .collect()
    }
}

/// The bytes of every token, in one buffer: what the detokenizer emits for an id.
pub(crate) struct TokenBytes {
    buffer: Vec<u8>,
    /// Token `id` is `buffer[starts[id]..starts[id + 1]]`.
    starts: Vec<usize>,
}

impl TokenBytes {
    pub(crate) fn with_capacity(tokens: usize) -> Self {
        let mut starts = Vec::with_capacity(tokens + 1);
        starts.push(0);
        Self {
            buffer: Vec::new(),
            starts,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        self.starts.push(self.buffer.len());
    }

    /// The bytes of a token; `None` for an id beyond the vocabulary.
    pub(crate) fn get(&self, id: u32) -> Option<&[u8]> {
        let id = usize::try_from(id).ok()?;
        let start = *self.starts.get(id)?;
        let end = *self.starts.get(id.checked_add(1)?)?;
        self.buffer.get(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letters_are_the_published_ones() {
        let letters: Vec<char> = byte_alphabet().collect();
        assert_eq!(letters[usize::from(b' ')], 'Ġ');
        assert_eq!(letters[usize::from(b'\n')], 'Ċ');
        assert_eq!(letters[usize::from(b'\t')], 'ĉ');
        assert_eq!(letters[0], 'Ā');
        assert_eq!(letters[0x7F], 'ġ');
        assert_eq!(letters[0xA0], 'ł');
        assert_eq!(letters[0xAD], 'Ń');
        assert_eq!(letters[usize::from(b'a')], 'a');
    }

    #[test]
    fn letters_and_bytes_are_inverse() {
        let table = ByteLetters::new();
        let word: String = byte_alphabet().collect();
        assert_eq!(table.spell(&word), Some((0..=255).collect::<Vec<u8>>()));
        assert_eq!(table.spell("a b"), None);
        assert_eq!(table.spell("日"), None);
    }
}
