//! What a run of the binary leaves, and where the models are.

use serde_json::Value;

pub const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data");

pub struct Output {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// The one object on stdout.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {:?}", self.stdout))
    }
}
