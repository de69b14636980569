//! What a longer context costs plain decoding.

use foretoken_core::Ops;
use foretoken_engine::Engine;
use serde_json::{Value, json};

use super::median;

/// Tokens before the one that is timed.
const CONTEXTS: [u32; 2] = [100, 2000];
/// Timed rounds. One more goes before them to warm up.
const ROUNDS: usize = 9;

/// Tokens a second after each context that the engine has room for, of passes of one row: their time does not depend on what
/// the cache holds. The contexts take turns, so that a change of the machine's speed meets them all.
pub(super) async fn decode<O: Ops>(engine: &Engine<O>) -> anyhow::Result<Value> {
    let room = engine.limits().context;
    let contexts: Vec<u32> = CONTEXTS
        .into_iter()
        .filter(|context| *context < room)
        .collect();
    let mut samples = vec![Vec::new(); contexts.len()];
    for round in 0..=ROUNDS {
        for (context, samples) in contexts.iter().zip(&mut samples) {
            let ms = engine.time_verify_pass(1, *context).await?;
            if round > 0 {
                samples.push(ms);
            }
        }
    }
    let entries = contexts.iter().zip(samples).map(|(context, samples)| {
        json!({ "context": context, "tokens_per_second": 1e3 / median(samples.into_iter()) })
    });
    Ok(entries.collect())
}

/// A line for people.
pub(super) fn describe(entries: &Value) -> String {
    let shown: Vec<String> = entries
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| {
            let rate = entry["tokens_per_second"].as_f64().unwrap_or_default();
            format!("{rate:.1} tok/s at {}", entry["context"])
        })
        .collect();
    match shown.is_empty() {
        true => String::new(),
        false => format!("passes of one row: {}\n", shown.join(", ")),
    }
}
