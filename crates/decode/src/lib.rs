//! The decode loop: from a prompt's tokens to the tokens of an answer.
//!
//! The one hard idea: **a step commits a block, not a token**. A step records one pass, waits once, and
//! gets back what the target model chose for each row. Plain decoding verifies one row, so its blocks
//! hold one token; speculation verifies `k + 1` rows and commits between 1 and `k + 1`. Everything
//! after the choice is the same code for both, and drafts are kept only while they are what the target
//! chose, so no [`Drafter`] can change an answer: the block is walked token by token, the first token
//! that ends the answer cuts it, and what was cut was never committed. The KV cache needs no roll-back:
//! entries at or beyond [`Sequence::kv_len`] are overwritten before anything attends to them.
//!
//! Who drafts is a [`Drafter`] on the host, whose guesses are known before the pass is recorded; or a
//! [`Draft`] model, whose passes are recorded before it and run on the device without the host between
//! them; or, with [`Auto`], in each step the one that promises most.
//!
//! The invariant between steps: every committed token but the last has its keys and values in the
//! cache (`kv_len == tokens.len() - 1`), because the last one has been chosen but not yet been read.

mod abort;
mod adaptive;
mod auto;
mod block;
mod choices;
mod decode_loop;
mod draft_model;
mod draft_step;
pub mod drafters;
mod error;
mod in_flight;
mod options;
mod prefill;
mod row_invariance;
pub mod script;
mod sequence;
mod statistics;
mod stop;

pub use abort::AbortSignal;
pub use adaptive::{
    AcceptanceEstimate, AdaptiveSpeculation, ConfidenceEstimate, StepCosts, choose_k,
    predicted_speedup,
};
pub use auto::Auto;
pub use block::{Block, TokenProvenance};
pub use decode_loop::DecodeLoop;
pub use draft_model::{
    Draft, DraftCache, DraftVocabulary, Translation, prepare_drafts, time_drafted_step,
};
pub use drafters::Drafter;
pub use error::DecodeError;
pub use options::DecodeOptions;
pub use prefill::prefill;
pub use row_invariance::{RowMismatch, check_row_invariance};
pub use sequence::Sequence;
pub use statistics::{
    AcceptanceStatistics, AggregateCounters, MAX_SPECULATIVE_TOKENS, StatisticsLevel,
};
pub use stop::{FinishReason, StopConditions};
