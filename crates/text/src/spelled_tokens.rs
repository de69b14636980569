//! Finding a token by its bytes.

use std::sync::Arc;

use foretoken_core::TokenId;

use crate::Tokenizer;
use crate::bytes::TokenBytes;

/// Bytes beyond these are not looked at when the longest token is looked for, which bounds the search. The longest tokens of
/// published vocabularies have about as many, and those are rows of one character.
const MOST_BYTES: usize = 256;

/// What a token is. Of several with the same bytes, an encoder makes the one whose class comes first here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TokenClass {
    /// Stands for its spelling wherever that occurs.
    UserDefined,
    Ordinary,
    /// A byte that is in no piece.
    Byte,
    Control,
    /// Fills a gap of the numbering; no text and no model makes it.
    Unused,
}

impl TokenClass {
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::UserDefined | Self::Ordinary | Self::Byte)
    }
}

/// The tokens that stand for text, sorted by their bytes; of several with the same bytes, the one an encoder makes: by class, then
/// the lowest id.
pub(crate) struct SpelledTokens {
    bytes: Arc<TokenBytes>,
    sorted: Vec<TokenId>,
}

impl SpelledTokens {
    pub(crate) fn new(tokenizer: &Tokenizer) -> Self {
        let bytes = Arc::clone(tokenizer.all_bytes());
        let spelling = |id: TokenId| bytes.get(id).unwrap_or_default();
        let mut tokens: Vec<(TokenClass, TokenId)> = tokenizer
            .classes()
            .iter()
            .copied()
            .zip(0..)
            .filter(|(class, id)| class.is_text() && !spelling(*id).is_empty())
            .collect();
        tokens.sort_unstable_by(|left, right| {
            spelling(left.1)
                .cmp(spelling(right.1))
                .then_with(|| left.cmp(right))
        });
        tokens.dedup_by(|later, earlier| spelling(later.1) == spelling(earlier.1));
        Self {
            sorted: tokens.into_iter().map(|(_, id)| id).collect(),
            bytes,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }

    fn spelling(&self, id: TokenId) -> &[u8] {
        self.bytes.get(id).unwrap_or_default()
    }

    /// The tokens that both have, as (one of `self`, one of `other`).
    pub(crate) fn pairs(&self, other: &Self) -> Vec<(TokenId, TokenId)> {
        let mut pairs = Vec::new();
        let mut others = other.sorted.iter().copied().peekable();
        for id in self.sorted.iter().copied() {
            let spelling = self.spelling(id);
            while others
                .next_if(|other_id| other.spelling(*other_id) < spelling)
                .is_some()
            {}
            if let Some(same) = others.next_if(|other_id| other.spelling(*other_id) == spelling) {
                pairs.push((id, same));
            }
        }
        pairs
    }

    /// The longest token that `text` begins with: its length in bytes and its id.
    fn longest_at(&self, text: &[u8]) -> Option<(usize, TokenId)> {
        // Tokens that share their first `depth` bytes with the text are neighbours.
        let mut candidates = &self.sorted[..];
        let mut longest = None;
        for (depth, byte) in text.iter().take(MOST_BYTES).enumerate() {
            let at_depth = |id: &TokenId| self.spelling(*id).get(depth);
            let from = candidates.partition_point(|id| at_depth(id) < Some(byte));
            let to = candidates.partition_point(|id| at_depth(id) <= Some(byte));
            candidates = candidates.get(from..to).unwrap_or_default();
            match candidates.first() {
                None => break,
                // Of those that go on with the text, the one that ends here comes first.
                Some(id) if self.spelling(*id).len() == depth + 1 => {
                    longest = Some((depth + 1, *id))
                }
                Some(_) => {}
            }
        }
        longest
    }

    /// Appends tokens that together have these bytes, the longest first from the left; a byte that no token begins with is left out.
    pub(crate) fn spell(&self, mut bytes: &[u8], ids: &mut Vec<TokenId>) {
        while !bytes.is_empty() {
            let taken = match self.longest_at(bytes) {
                Some((length, id)) => {
                    ids.push(id);
                    length
                }
                None => 1,
            };
            bytes = bytes.get(taken..).unwrap_or_default();
        }
    }
}
