//! Rows: one row of a pass is one token of one sequence at one position.

/// A token of a model's vocabulary.
pub type TokenId = u32;

/// An absolute position in a sequence, from 0.
pub type Position = u32;

/// Which sequence's KV cache a row reads and writes. One sequence is the special case 0.
pub type SequenceSlot = u32;

/// The most rows the row family takes: one target token and up to 15 drafts.
pub const MAX_VERIFY_ROWS: usize = 16;

/// The most rows one prefill pass takes. With the header the row table stays below 1 KiB.
pub const MAX_PREFILL_ROWS: usize = 32;

/// A [`Row::token`] that means: the token the device chose last for this sequence, which the host
/// need not have seen yet.
pub const TOKEN_ON_DEVICE: TokenId = u32::MAX;

/// What the rows of a pass are for. **The phase picks the kernel family, never the row count**: that
/// is what makes a token's bits independent of how many rows stood around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Prompt tokens: up to [`MAX_PREFILL_ROWS`] a pass.
    Prefill,
    /// Generated tokens, decode and verify alike: 1..=[`MAX_VERIFY_ROWS`] a pass.
    Rows,
}

impl Phase {
    /// The most rows a pass of this phase takes.
    pub const fn max_rows(self) -> usize {
        match self {
            Phase::Prefill => MAX_PREFILL_ROWS,
            Phase::Rows => MAX_VERIFY_ROWS,
        }
    }
}

/// One entry of the row table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The token whose embedding enters the model, below the vocabulary, or [`TOKEN_ON_DEVICE`].
    pub token: TokenId,
    /// Where it stands; its keys and values are written there and it attends to 0..=position.
    pub position: Position,
    /// Whose KV cache it uses.
    pub sequence: SequenceSlot,
}
