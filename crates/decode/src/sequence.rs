//! One sequence of tokens and how much of it the KV cache holds.

use foretoken_core::{Position, Row, SequenceSlot, TokenId};

/// The state of one sequence: what was committed, and how far the KV cache follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    slot: SequenceSlot,
    tokens: Vec<TokenId>,
    kv_len: usize,
    written: usize,
}

impl Sequence {
    /// An empty sequence on a slot of the KV cache. What the slot held before no longer counts.
    pub fn new(slot: SequenceSlot) -> Self {
        Self {
            slot,
            tokens: Vec::new(),
            kv_len: 0,
            written: 0,
        }
    }

    /// Its slot of the KV cache.
    pub fn slot(&self) -> SequenceSlot {
        self.slot
    }

    /// Committed tokens: the prompt and what was generated.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Positions whose keys and values are those of the committed tokens; never above
    /// `tokens().len()`. What the cache holds beyond is stale.
    pub fn kv_len(&self) -> usize {
        self.kv_len
    }

    /// Positions below which passes of a prompt were submitted, whether they are known to have run or not; at least
    /// [`Sequence::kv_len`]. A cache that is a ring has lost what their places held before.
    pub fn written(&self) -> usize {
        self.written.max(self.kv_len)
    }

    /// Says that a pass of the prompt up to `len` was submitted.
    pub(crate) fn submitted(&mut self, len: usize) {
        self.written = self.written.max(len);
    }

    /// Commits tokens at the end. Their keys and values are not in the cache yet.
    pub fn commit(&mut self, tokens: &[TokenId]) {
        self.tokens.extend_from_slice(tokens);
    }

    /// Keeps the first `len` tokens and forgets the rest, in the cache too.
    pub fn truncate(&mut self, len: usize) {
        self.tokens.truncate(len);
        self.kv_len = self.kv_len.min(self.tokens.len());
    }

    /// Says that a pass wrote the cache for every committed token below `len`.
    ///
    /// # Panics
    /// If so many tokens are not committed.
    pub fn set_kv_len(&mut self, len: usize) {
        assert!(
            len <= self.tokens.len(),
            "KV of {len} positions for {} tokens",
            self.tokens.len()
        );
        self.kv_len = len;
    }

    /// The rows of a pass over tokens `from..to`.
    ///
    /// # Panics
    /// If the range is not within the committed tokens.
    pub fn rows(&self, from: usize, to: usize) -> Vec<Row> {
        self.tokens[from..to]
            .iter()
            .enumerate()
            .map(|(i, &token)| Row {
                token,
                position: position(from + i),
                sequence: self.slot,
            })
            .collect()
    }
}

/// An index as a position. Sequences end at the context, whose length is a `u32`.
pub(crate) fn position(index: usize) -> Position {
    Position::try_from(index).expect("a sequence is shorter than its context")
}
