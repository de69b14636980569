//! Requests: from JSON to something that can be run, or a refusal that names the field.

mod chat;
mod completion;
mod fields;
mod messages;
mod params;
mod sampling;
mod tools;

use serde_json::Value;

pub use chat::ChatCompletionRequest;
pub use completion::{CompletionRequest, Prompt};
pub(crate) use fields::{Fields, Range, invalid, kind, text};
pub use messages::MAX_MESSAGES;
pub(crate) use params::Params;
pub use tools::MAX_TOOLS;

use crate::{Error, SpeculativeConfig};

/// The most bytes of a request body.
pub const MAX_BODY_BYTES: usize = 4 << 20;

/// What of a loaded engine bounds a request.
#[derive(Debug, Clone, Copy, PartialEq)]
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

/// A JSON value that stands in a string. (By bytes, as bodies are read: parsing anything else would be a second parser in wasm.)
pub(crate) fn parse_json(text: &str) -> Option<Value> {
    serde_json::from_slice(text.as_bytes()).ok()
}
