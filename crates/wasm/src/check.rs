//! Looking at a file before its bytes are fetched.

use foretoken_engine::{ErrorBody, inspect};
use foretoken_weights::ByteSource;
use wasm_bindgen::prelude::*;

use crate::failure::{thrown, to_js};
use crate::source::{ByteRanges, JsSource};

/// Reads a file's header and throws if this build could not load it; returns what it holds.
#[wasm_bindgen]
pub async fn check(file: ByteRanges) -> Result<JsValue, JsValue> {
    let source = JsSource::new(file);
    let report = inspect(&source).await.map_err(|error| thrown(&error))?;
    match report.problems.first() {
        None => Ok(to_js(&report)),
        Some(problem) => Err(to_js(&ErrorBody {
            message: format!("{}: {problem}", source.name()),
            r#type: "server_error",
            code: if problem.starts_with("tensor") {
                "unsupported_quantization"
            } else {
                "unsupported_architecture"
            },
            param: None,
        })),
    }
}
