//! A target's tokens in its draft's, as they are committed.

use std::sync::Arc;

use foretoken_core::TokenId;

use crate::VocabularyMap;

/// A token without a counterpart that has more bytes than this is left out, which bounds the work for a token. No published
/// vocabulary has one.
const MOST_TOKEN_BYTES: usize = 1024;

/// The draft's tokens for the target's committed ones, prompt and answer alike.
///
/// A token with a counterpart becomes that one token. One without becomes the draft's tokens for its bytes, which may be several; so a place in the
/// draft's sequence is not the same place in the target's. Bytes at the end that only begin a character wait until the character is whole; if the next token
/// of text does not continue it, they become tokens for single bytes where the draft has such, and are left out where it has not. A control token without counterpart is
/// left out.
///
/// The draft's tokens begin with its BOS if its own prompts do, whether the target's begin with one or not; and a BOS that the target's begin with is not repeated.
///
/// What follows depends on the tokens before it alone, so tokens already there stay when more are committed.
pub struct FollowedTokens {
    map: Arc<VocabularyMap>,
    tokens: Vec<TokenId>,
    committed: Vec<TokenId>,
    /// One after each committed token.
    marks: Vec<Mark>,
}

/// How things stand after a committed token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Mark {
    /// The draft's tokens so far.
    tokens: usize,
    waiting: Waiting,
}

/// The beginning of a character: 0 to 3 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Waiting {
    bytes: [u8; 3],
    length: u8,
}

impl Waiting {
    fn new(beginning: &[u8]) -> Self {
        let mut bytes = [0; 3];
        let mut length = 0;
        for (slot, byte) in bytes.iter_mut().zip(beginning) {
            *slot = *byte;
            length += 1;
        }
        Self { bytes, length }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes
            .get(..usize::from(self.length))
            .unwrap_or_default()
    }
}

impl FollowedTokens {
    /// With nothing committed.
    pub fn new(map: Arc<VocabularyMap>) -> Self {
        Self {
            tokens: map.draft_bos().into_iter().collect(),
            map,
            committed: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// The draft's tokens for all that is committed.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// The target's tokens that were followed.
    pub fn committed(&self) -> &[TokenId] {
        &self.committed
    }

    /// Whether the committed tokens end within a character that [`FollowedTokens::tokens`] does not have yet. What the draft would say next
    /// is then not what comes next.
    pub fn ends_within_character(&self) -> bool {
        self.mark().waiting.length > 0
    }

    /// How many draft's tokens stand for the first `committed` tokens; for more than there are, all.
    pub fn tokens_at(&self, committed: usize) -> usize {
        let Some(last) = committed.checked_sub(1) else {
            return usize::from(self.map.draft_bos().is_some());
        };
        self.marks
            .get(last)
            .map_or(self.tokens.len(), |mark| mark.tokens)
    }

    fn mark(&self) -> Mark {
        self.marks.last().copied().unwrap_or_default()
    }

    /// Appends the draft's tokens for tokens that were committed, and returns them.
    pub fn follow(&mut self, committed: &[TokenId]) -> &[TokenId] {
        let before = self.tokens.len();
        for id in committed {
            let waiting = self.follow_one(*id);
            self.committed.push(*id);
            self.marks.push(Mark {
                tokens: self.tokens.len(),
                waiting,
            });
        }
        self.tokens.get(before..).unwrap_or_default()
    }

    /// Goes back to the first `committed` tokens; does nothing where there are no more.
    pub fn truncate(&mut self, committed: usize) {
        let tokens = self.tokens_at(committed);
        self.tokens.truncate(tokens);
        self.committed.truncate(committed);
        self.marks.truncate(committed);
    }

    /// Follows another sequence: goes back to what it has in common with the one so far, and follows the rest. Returns how many of the draft's tokens
    /// stayed, which takes comparing all that is committed.
    pub fn follow_whole(&mut self, committed: &[TokenId]) -> usize {
        let pairs = self.committed.iter().zip(committed);
        let common = pairs.take_while(|(old, new)| old == new).count();
        self.truncate(common);
        let stayed = self.tokens.len();
        self.follow(committed.get(common..).unwrap_or_default());
        stayed
    }

    /// Appends the tokens for one, and returns the bytes that wait after it.
    fn follow_one(&mut self, id: TokenId) -> Waiting {
        let map = Arc::clone(&self.map);
        let waiting = self.mark().waiting;
        let bytes = map.target_bytes(id);
        let counterpart = map.draft_token(id);
        let begins_with_continuation = bytes.first().is_some_and(|byte| byte & 0xC0 == 0x80);
        if waiting.length > 0 && begins_with_continuation && bytes.len() <= MOST_TOKEN_BYTES {
            return self.spell(&[waiting.bytes(), bytes].concat());
        }
        if counterpart.is_none() && (bytes.is_empty() || bytes.len() > MOST_TOKEN_BYTES) {
            return waiting;
        }
        map.spell_bytes(waiting.bytes(), &mut self.tokens);
        match counterpart {
            // The target's BOS, which already stands there.
            Some(_) if self.committed.is_empty() && counterpart == map.draft_bos() => {}
            Some(token) => self.tokens.push(token),
            None => return self.spell(bytes),
        }
        Waiting::default()
    }

    /// Appends tokens for all bytes but a beginning of a character at the end, which is returned.
    fn spell(&mut self, bytes: &[u8]) -> Waiting {
        let map = Arc::clone(&self.map);
        let mut rest = bytes;
        loop {
            let (text, problem) = match std::str::from_utf8(rest) {
                Ok(text) => (text, None),
                Err(error) => {
                    let valid = rest.get(..error.valid_up_to()).unwrap_or_default();
                    (std::str::from_utf8(valid).unwrap_or_default(), Some(error))
                }
            };
            if !text.is_empty() {
                map.spell_text(text, &mut self.tokens);
            }
            rest = rest.get(text.len()..).unwrap_or_default();
            let Some(error) = problem else {
                return Waiting::default();
            };
            let Some(length) = error.error_len() else {
                return Waiting::new(rest);
            };
            let (invalid, after) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            map.spell_bytes(invalid, &mut self.tokens);
            rest = after;
        }
    }
}
