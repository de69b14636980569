//! Model architectures, written once against [`Ops`](foretoken_core::Ops).
//!
//! The one hard idea: **a model is an order of ops, and nothing else**. An architecture (`src/arch`, one file
//! each) reads its dimensions from a GGUF file's metadata, holds every tensor's shape against them, streams
//! the weights to the ops, and from then on only says which op follows which. The same code runs on the CPU
//! oracle and on the GPU, so that comparing the two compares kernels and never models. Matrices over one
//! input are loaded as one (q, k and v; gate and up), whatever formats the file stores them in, because a
//! pass over one token costs what its kernel launches and its weights cost.
//!
//! [`load_model`] is the way in; what it returns is a [`LanguageModel`](foretoken_core::LanguageModel).

mod arch;
mod config;
mod context_length;
mod decoder;
mod error;
mod load;
mod load_context;
mod probe;
mod quantization;
mod rope;

pub use arch::architectures;
pub use error::ModelsError;
pub use load::{
    DEFAULT_CONTEXT_LENGTH, LoadOptions, default_context_length, load_model, plan_model,
    trained_context_length,
};
pub use load_context::is_not_for_text;
pub use quantization::Quantization;
