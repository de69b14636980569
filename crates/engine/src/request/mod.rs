//! Requests: from JSON to something that can be run, or a refusal that names the field.

mod chat;
mod completion;
mod fields;
mod params;
mod sampling;

use serde_json::Value;

pub use chat::{ChatCompletionRequest, MAX_MESSAGES, Message, Role};
pub use completion::{CompletionRequest, Prompt};
pub(crate) use fields::{Fields, invalid, kind, text};
pub(crate) use params::Params;

use crate::{Error, SpeculativeConfig};

/// The most bytes of a request body.
pub const MAX_BODY_BYTES: usize = 4 << 20;

/// What of a loaded engine bounds a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Positions of the context.
    pub context: u32,
    /// Tokens of the vocabulary, at least 1.
    pub vocab: u32,
    /// What the engine drafts with where a request does not say, and the most a request may ask for.
    pub speculation: Option<SpeculativeConfig>,
}

/// Parses the bytes of a request body.
///
/// # Errors
/// [`Error::InvalidRequest`] if they are too many or no JSON.
pub fn parse_body(bytes: &[u8]) -> Result<Value, Error> {
    if bytes.len() > MAX_BODY_BYTES {
        let found = bytes.len();
        return Err(Error::InvalidRequest {
            param: None,
            message: format!(
                "the request body has {found} bytes; at most {MAX_BODY_BYTES} are read"
            ),
        });
    }
    serde_json::from_slice(bytes).map_err(|error| Error::InvalidRequest {
        param: None,
        message: format!("the request body is no JSON: {error}"),
    })
}
