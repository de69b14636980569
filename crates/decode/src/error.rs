//! Why decoding cannot go on.

use foretoken_core::{OpsError, Position, TokenId};

/// Why a step failed. After any of these the sequence holds what was committed before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] OpsError),
    /// The logits of a row held a NaN or an infinity, so there was nothing honest to choose.
    #[error(
        "the model's logits after position {position} hold a NaN or an infinity: the weights are damaged, \
         or a number overflowed on this device"
    )]
    NonFinite {
        /// The row's position.
        position: Position,
    },
    /// A token that the model does not have.
    #[error("token {token} at position {position} is outside the model's vocabulary of {vocab}")]
    TokenOutOfVocabulary {
        /// The token.
        token: TokenId,
        /// Where it stands in the sequence.
        position: u64,
        /// The vocabulary's size.
        vocab: u32,
    },
    /// No room is left for even one token.
    #[error(
        "the prompt has {prompt} tokens and the context holds {context}, of which at least 1 must be left \
         for the answer: shorten the prompt or raise the context length"
    )]
    ContextExceeded {
        /// Tokens of the prompt.
        prompt: u64,
        /// Positions of the context.
        context: u32,
    },
    /// There is nothing to continue.
    #[error("the prompt holds no token: give it at least one")]
    EmptyPrompt,
    /// The [`crate::AbortSignal`] was raised.
    #[error("the generation was aborted")]
    Aborted,
    /// The device answered for another number of rows than it was given.
    #[error("the device chose for {chosen} rows where {expected} were verified")]
    ChosenRows {
        /// Rows it answered for.
        chosen: usize,
        /// Rows that had logits.
        expected: usize,
    },
}
