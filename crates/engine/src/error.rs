//! What can go wrong, under one code each.

use foretoken_core::OpsError;
use foretoken_decode::DecodeError;
use foretoken_models::ModelsError;
use foretoken_text::TextError;
use foretoken_weights::WeightsError;
use serde::Serialize;

/// Why the engine did not do what it was asked to. Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request is not one that can be run.
    #[error("{message}")]
    InvalidRequest {
        /// The field, where it is about one.
        param: Option<String>,
        /// What is wrong with it and what is taken.
        message: String,
    },
    /// The prompt does not fit.
    #[error(
        "the prompt has {prompt} tokens and the context holds {context}, of which at least 1 must be left \
         for the answer: shorten the prompt or load the model with a larger context length"
    )]
    ContextLengthExceeded {
        /// The field that makes the prompt.
        param: &'static str,
        /// Tokens of the prompt.
        prompt: usize,
        /// Positions of the context.
        context: u32,
    },
    /// The request names a model that is not loaded.
    #[error("the model {requested:?} is not served here: leave `model` out or name {served:?}")]
    ModelNotServed {
        /// What was asked for.
        requested: String,
        /// What there is.
        served: String,
    },
    /// The queue is full.
    #[error(
        "{limit} requests wait for this engine already: try again when some of them are done",
        limit = crate::MAX_WAITING
    )]
    Busy,
    /// The file's chat template refused the messages, or there is none that can be used.
    #[error(transparent)]
    Template(TextError),
    /// The file.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The tokenizer.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The model.
    #[error(transparent)]
    Models(#[from] ModelsError),
    /// The decode loop.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The device.
    #[error(transparent)]
    Ops(#[from] OpsError),
}

/// OpenAI's error object: `{"error": {…}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorObject {
    /// What it wraps.
    pub error: ErrorBody,
}

/// What an [`ErrorObject`] wraps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorBody {
    /// One line.
    pub message: String,
    /// `invalid_request_error` where the request is at fault, `server_error` elsewhere.
    pub r#type: &'static str,
    /// [`Error::code`].
    pub code: &'static str,
    /// The field of the request it is about.
    pub param: Option<String>,
}

impl Error {
    /// What kind of failure it is, for programs. Stable.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Template(TextError::RenderedTooLong { .. }) => "context_length_exceeded",
            Error::InvalidRequest { .. } | Error::Template(_) => "invalid_request",
            Error::ContextLengthExceeded { .. } => "context_length_exceeded",
            Error::ModelNotServed { .. } => "model_not_found",
            Error::Busy => "busy",
            Error::Weights(error) => weights_code(error),
            Error::Text(error) => text_code(error),
            Error::Models(error) => models_code(error),
            Error::Decode(error) => decode_code(error),
            Error::Ops(error) => ops_code(error),
        }
    }

    /// The field of the request that is at fault.
    pub fn param(&self) -> Option<&str> {
        match self {
            Error::InvalidRequest { param, .. } => param.as_deref(),
            Error::ContextLengthExceeded { param, .. } => Some(param),
            Error::ModelNotServed { .. } => Some("model"),
            Error::Template(TextError::TooDeep { field, .. }) => Some(field),
            Error::Template(TextError::NothingToContinue { .. }) => Some("continue_final_message"),
            Error::Template(_) => Some("messages"),
            _ => None,
        }
    }

    /// Whether the request is at fault, and would be again.
    pub fn is_request_error(&self) -> bool {
        matches!(
            self,
            Error::InvalidRequest { .. }
                | Error::ContextLengthExceeded { .. }
                | Error::ModelNotServed { .. }
                | Error::Template(_)
        )
    }

    /// Whether it only says that the request was aborted.
    pub fn is_abort(&self) -> bool {
        matches!(self, Error::Decode(DecodeError::Aborted))
    }

    /// As it goes over the wire.
    pub fn to_object(&self) -> ErrorObject {
        ErrorObject {
            error: ErrorBody {
                message: self.to_string(),
                r#type: if self.is_request_error() {
                    "invalid_request_error"
                } else {
                    "server_error"
                },
                code: self.code(),
                param: self.param().map(str::to_owned),
            },
        }
    }
}

fn weights_code(error: &WeightsError) -> &'static str {
    match error {
        WeightsError::NotFound { .. } | WeightsError::NotReadable { .. } => "model_not_found",
        WeightsError::UnsupportedFormat { .. } => "unsupported_quantization",
        WeightsError::UnsupportedConfig { key, .. } if key.ends_with("quantization_config") => {
            "unsupported_quantization"
        }
        WeightsError::UnsupportedConfig { .. } => "unsupported_architecture",
        WeightsError::OutOfMemory { .. } => "out_of_memory",
        _ => "corrupt_weights",
    }
}

fn text_code(error: &TextError) -> &'static str {
    match error {
        TextError::UnsupportedModel { .. }
        | TextError::MissingPreTokenizer { .. }
        | TextError::UnknownPreTokenizer { .. }
        | TextError::UnsupportedOption { .. } => "unsupported_architecture",
        TextError::Tokenizer { .. } => "internal",
        _ => "corrupt_weights",
    }
}

fn models_code(error: &ModelsError) -> &'static str {
    match error {
        ModelsError::Weights(error) => weights_code(error),
        ModelsError::Ops(error) => ops_code(error),
        ModelsError::UnsupportedArchitecture { .. }
        | ModelsError::UnsupportedFeature { .. }
        | ModelsError::UnusedTensor { .. } => "unsupported_architecture",
        ModelsError::ContextLength { .. } | ModelsError::AlreadyQuantized { .. } => {
            "invalid_request"
        }
        _ => "corrupt_weights",
    }
}

fn ops_code(error: &OpsError) -> &'static str {
    match error {
        OpsError::Unavailable { .. } => "webgpu_unavailable",
        OpsError::DeviceLost { .. } | OpsError::Timeout { .. } => "device_lost",
        OpsError::OutOfMemory { .. } => "out_of_memory",
        _ => "internal",
    }
}

fn decode_code(error: &DecodeError) -> &'static str {
    match error {
        DecodeError::Device(error) => ops_code(error),
        DecodeError::ContextExceeded { .. } => "context_length_exceeded",
        DecodeError::EmptyPrompt => "invalid_request",
        _ => "internal",
    }
}
