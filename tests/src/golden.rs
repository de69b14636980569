//! Golden files: what transformers computed, checked in beside the tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use foretoken_core::TokenId;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Cases of a real model, in `golden/<model>.json`.
#[derive(Debug, Deserialize)]
pub struct GoldenFile {
    /// The cases.
    pub cases: Vec<GoldenCase>,
}

/// One prompt and what follows it.
#[derive(Debug, Deserialize)]
pub struct GoldenCase {
    /// Its name.
    pub id: String,
    /// The text that `prompt_ids` encode, special tokens written out.
    pub text: String,
    /// The prompt.
    pub prompt_ids: Vec<TokenId>,
    /// Greedy continuation, with the stop token where there is one.
    pub output_ids: Vec<TokenId>,
    /// `stop` or `length`.
    pub finish_reason: String,
    /// The largest logits at the prompt's last position, the largest first.
    pub top20: Vec<(TokenId, f32)>,
}

/// Tokens at which the golden outputs of SmolLM2 end: `<|im_end|>` and `<|endoftext|>`.
pub const SMOLLM2_STOP_IDS: &[TokenId] = &[2, 0];

/// `golden/tiny.json`.
#[derive(Debug, Deserialize)]
pub struct TinyGolden {
    /// By name.
    pub prompts: BTreeMap<String, TinyPrompt>,
    /// By file name in `data`, then by prompt name.
    pub files: BTreeMap<String, BTreeMap<String, TinyCase>>,
}

/// One prompt, the same for all TINY files.
#[derive(Debug, Deserialize)]
pub struct TinyPrompt {
    /// Its text, special tokens written out.
    pub text: String,
    /// Its tokens.
    pub prompt_ids: Vec<TokenId>,
}

/// What one TINY file makes of one prompt.
#[derive(Debug, Deserialize)]
pub struct TinyCase {
    /// All logits at the prompt's last position.
    pub logits: Vec<f32>,
    /// Greedy continuation without any stop token, up to the end of the context.
    pub output_ids: Vec<TokenId>,
    /// The smallest distance between the largest two logits of a step: how much error the ids bear.
    pub smallest_gap: f32,
}

/// The golden files of TINY models: formats and variations of llama, and the other architectures.
pub const TINY_GOLDENS: [&str; 2] = ["tiny.json", "tiny_models.json"];

/// Reads `golden/<name>`.
pub fn read_golden<T: DeserializeOwned>(name: &str) -> T {
    let path = folder("golden").join(name);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The path of `data/<name>`.
pub fn data_file(name: &str) -> PathBuf {
    folder("data").join(name)
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}
