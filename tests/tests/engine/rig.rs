//! Running requests, with every response and chunk checked.

use foretoken_core::Ops;
use foretoken_engine::{
    AbortSignal, ChatCompletionRequest, CompletionRequest, Engine, EngineOptions, Error,
    SpeculativeConfig, StatisticsLevel,
};
use foretoken_reference::CpuOps;
use foretoken_tests::golden::data_file;
use foretoken_weights::FileSource;
use pollster::block_on;
use serde_json::{Value, json};

use crate::schema;

pub fn options() -> EngineOptions {
    EngineOptions {
        check_row_invariance: true,
        ..EngineOptions::new("tiny", "cpu reference")
    }
}

/// `options` with n-gram drafts of up to `k` tokens, and every metric. By k, each step waits for the one before it, or two
/// or four are in flight: nothing that these tests look at may depend on it.
pub fn speculative_options(k: u32) -> EngineOptions {
    EngineOptions {
        speculative_config: Some(ngram(k)),
        per_request_spec_decode_metrics: StatisticsLevel::Detailed,
        enable_per_request_metrics: true,
        steps_a_wait: Some(k as usize % 3),
        ..options()
    }
}

pub fn ngram(k: u32) -> SpeculativeConfig {
    let config = json!({
        "method": "ngram", "num_speculative_tokens": k, "prompt_lookup_min": 1,
        "prompt_lookup_max": 3, "adaptive": false,
    });
    SpeculativeConfig::parse(&config).unwrap()
}

pub fn engine() -> Engine<CpuOps> {
    engine_with(options())
}

pub fn engine_with(options: EngineOptions) -> Engine<CpuOps> {
    engine_on(CpuOps::with_threads(1), options)
}

pub fn engine_on<O: Ops + 'static>(ops: O, options: EngineOptions) -> Engine<O> {
    let source = FileSource::open(data_file("tiny.gguf")).unwrap();
    block_on(Engine::load(ops, &source, options, &mut |_| {})).unwrap()
}

pub fn complete<O: Ops>(engine: &Engine<O>, body: &Value) -> Result<Value, Error> {
    let request = CompletionRequest::parse(body, &engine.limits())?;
    let mut generation = engine.complete(&request, AbortSignal::new())?;
    let response = serde_json::to_value(block_on(generation.response())?).unwrap();
    schema::check_response("text_completion", &response);
    Ok(response)
}

pub fn chat<O: Ops>(engine: &Engine<O>, body: &Value) -> Result<Value, Error> {
    let request = ChatCompletionRequest::parse(body, &engine.limits())?;
    let mut generation = engine.chat(&request, AbortSignal::new())?;
    let response = serde_json::to_value(block_on(generation.response())?).unwrap();
    schema::check_response("chat.completion", &response);
    Ok(response)
}

pub fn stream_completion<O: Ops>(engine: &Engine<O>, body: &Value) -> Vec<Value> {
    let request = CompletionRequest::parse(body, &engine.limits()).unwrap();
    let mut generation = engine.complete(&request, AbortSignal::new()).unwrap();
    let mut chunks = Vec::new();
    while let Some(chunk) = block_on(generation.next_chunk()).unwrap() {
        chunks.push(serde_json::to_value(chunk).unwrap());
    }
    schema::check_chunks("text_completion", &chunks);
    chunks
}

pub fn stream_chat<O: Ops>(engine: &Engine<O>, body: &Value) -> Vec<Value> {
    let request = ChatCompletionRequest::parse(body, &engine.limits()).unwrap();
    let mut generation = engine.chat(&request, AbortSignal::new()).unwrap();
    let mut chunks = Vec::new();
    while let Some(chunk) = block_on(generation.next_chunk()).unwrap() {
        chunks.push(serde_json::to_value(chunk).unwrap());
    }
    schema::check_chunks("chat.completion.chunk", &chunks);
    chunks
}

pub fn ids(value: &Value) -> Vec<u64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap())
        .collect()
}

/// Code, parameter and message of a refusal.
pub fn refused(error: Result<Value, Error>) -> (String, String, String) {
    let object = serde_json::to_value(error.unwrap_err().to_object()).unwrap();
    let body = &object["error"];
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let message = text("message");
    assert!(
        !message.contains('\n') && !message.is_empty(),
        "one line: {message:?}"
    );
    (text("code"), text("param"), message)
}

/// A small generator of its own.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % below as u64) as usize
    }

    /// Tokens that are no control tokens.
    pub fn tokens(&mut self, len: usize) -> Vec<u32> {
        (0..len).map(|_| 10 + self.below(500) as u32).collect()
    }
}
