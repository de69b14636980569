//! The engine: a model file and some ops in, OpenAI-shaped answers out.
//!
//! The one hard idea: **nothing here knows what runs the model, and nothing here waits but for it**. An
//! [`Engine`] is generic over [`foretoken_core::Ops`]; a request is validated into a value that can only be
//! run ([`ChatCompletionRequest::parse`], [`CompletionRequest::parse`]); a [`Generation`] is pulled chunk by
//! chunk, and each pull records one step and waits once for the device. There are no threads and no
//! callbacks, so the same code serves a terminal, a server and a browser's worker.
//!
//! Requests take turns, in the order in which they came. A generation holds its place from the call that made it, works
//! while it is polled, and gives its turn up when it ends or is dropped, however far it has come: dropping it
//! is all it takes to cancel it. (So a generation that nobody polls keeps others waiting.) What one request leaves behind
//! is the KV cache, and the next takes over no more of it than keeps its answer what a fresh engine would say.
//!
//! Text and tokens part ways at the end: `token_ids` and `usage` hold every token that was generated, the
//! one that ended the answer and those of a matched stop string included; the text holds neither.

mod answer_parts;
mod counters;
mod draft;
mod drafters;
mod engine;
mod error;
mod generation;
mod inspect;
mod load;
mod measure;
mod plan;
mod prepare;
mod prompt;
mod request;
mod request_ids;
pub mod response;
pub mod routes;
mod seeds;
mod session;
mod speculation;
mod text_stream;
mod tokenizer;
mod turn;
mod vocabulary;

pub use counters::{EngineMetrics, RequestTotals};
pub use draft::{DraftFailure, DraftReport, DraftSource};
pub use engine::{DeviceCounts, Engine, RowInvariance};
pub use error::{Error, ErrorBody, ErrorObject};
pub use foretoken_decode::drafters::{MatchOrder, SuffixOptions};
pub use foretoken_decode::{
    AbortSignal, AcceptanceStatistics, StatisticsLevel, StepCosts, TokenProvenance,
    predicted_speedup,
};
pub use foretoken_models::{Quantization, default_context_length};
pub use foretoken_text::ChatMessage;
pub use generation::{Generation, Timing};
pub use inspect::{
    FormatReport, ModelReport, RopeScaling, SpecialTokens, TemplateReport, TokenReport, inspect,
};
pub use load::{EngineOptions, LoadPhase, LoadProgress, parse_metrics_level};
pub use plan::{Plan, fit_context, plan, plan_context};
pub use request::{
    ChatCompletionRequest, CompletionRequest, MAX_BODY_BYTES, MAX_MESSAGES, MAX_TOOLS, Prompt,
    RequestLimits, parse_body,
};
pub use session::PrefixReuse;
pub use speculation::{
    MAX_PROMPT_LOOKUP, MAX_SPECULATIVE_TOKENS, MAX_SUFFIX_TREE_DEPTH, SpeculationStatus,
    SpeculativeConfig, SpeculativeMethod,
};
pub use turn::MAX_WAITING;
