//! The vocabulary of Foretoken: what models, kernels and the decode loop say to one another.
//!
//! The one hard idea: **a model is written once, against [`Ops`]**. `Ops` has one method per kernel
//! family; calling it *records* work and never waits. `CpuOps` (crate `foretoken-reference`) computes at
//! once in plain f32 and is the oracle; `GpuOps` (crate `foretoken-gpu`) records compute dispatches.
//! Only reading back waits. Between the two stands a step: [`Ops::begin`] uploads the row table (which
//! token at which position of which sequence), the model records its ops, [`Ops::choose`] picks a
//! token per row on the device, [`Ops::submit`] hands the recording over and
//! [`Ops::read_chosen`] is the one place where anybody waits.

mod clock;
mod draft;
mod format;
mod language_model;
mod ops;
mod row;
pub mod sampling;
mod steps;

pub use clock::{Clock, since_unix_epoch};
pub use draft::{DraftChoice, DraftStart, Drafted, HostDraft, NO_COUNTERPART};
pub use format::{Format, QuantFormat, Quantize, WEIGHTS_PER_BLOCK};
pub use language_model::{LanguageModel, ModelConfig};
pub use ops::{
    ATTENTION_SPAN, AttentionShape, Chosen, GluActivation, KvShape, MatrixLayout, MatrixPart, Ops,
    OpsError, ROW_GROUP, RopeStyle, RopeTableSpec, RowSet,
};
pub use row::{
    MAX_PREFILL_ROWS, MAX_VERIFY_ROWS, Phase, Position, Row, SequenceSlot, TOKEN_ON_DEVICE, TokenId,
};
pub use sampling::{Chooser, Sampling};
pub use steps::{
    HostSteps, MAX_STEP_STOP_IDS, MAX_STEPS_A_WAIT, MatchOrder, NgramLookup, StepLimits,
    StepOutcome,
};
