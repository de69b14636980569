//! The engine: a model file and some ops in, OpenAI-shaped answers out.
//!
//! The one hard idea: **nothing here knows what runs the model, and nothing here waits but for it**. An
//! [`Engine`] is generic over [`foretoken_core::Ops`]; a request is validated into a value that can only be
//! run ([`ChatCompletionRequest::parse`], [`CompletionRequest::parse`]); a [`Generation`] is pulled chunk by
//! chunk, and each pull records one step and waits once for the device. There are no threads and no
//! callbacks, so the same code serves a terminal, a server and a browser's worker, and dropping a generation
//! is all it takes to cancel it.
//!
//! Text and tokens part ways at the end: `token_ids` and `usage` hold every token that was generated, the
//! one that ended the answer and those of a matched stop string included; the text holds neither.

mod engine;
mod error;
mod generation;
mod inspect;
mod load;
mod prompt;
mod request;
mod request_ids;
pub mod response;
mod text_stream;
mod vocabulary;

pub use engine::{Engine, RowInvariance};
pub use error::{Error, ErrorBody, ErrorObject};
pub use foretoken_decode::AbortSignal;
pub use generation::{Generation, Timing};
pub use inspect::{FormatReport, ModelReport, inspect};
pub use load::{EngineOptions, LoadPhase, LoadProgress};
pub use request::{
    ChatCompletionRequest, CompletionRequest, MAX_BODY_BYTES, MAX_MESSAGES, Message, Prompt,
    RequestLimits, Role, parse_body,
};
