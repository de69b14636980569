//! `bench --prompts`: the same prompts decoded plainly and with speculation, in turn.

use std::path::Path;

use foretoken_core::{Ops, TokenId};
use foretoken_engine::response::Shape;
use foretoken_engine::{
    AbortSignal, ChatCompletionRequest, CompletionRequest, Engine, Generation, parse_body,
};
use serde_json::{Map, Value, json};

use super::bench::median;
use super::read_file;
use crate::answer::decode_rate;
use crate::device::Device;
use crate::failure::invalid;

/// Tokens a prompt that does not say is answered with.
const MAX_TOKENS: u32 = 128;
/// Pairs of runs, plain and speculative; the medians are shown.
const PAIRS: usize = 3;
/// Row counts whose passes are timed, and those that are shown.
const TIMED_ROWS: [usize; 5] = [1, 2, 4, 8, 16];
const SHOWN_ROWS: [usize; 4] = [1, 2, 4, 8];
/// Rounds over all row counts.
const ROUNDS: usize = 9;

/// One entry of the file.
pub struct BenchPrompt {
    id: Value,
    chat: bool,
    /// The request, but for `speculative_config`.
    body: Value,
}

/// Reads the file.
pub fn read(file: &Path) -> anyhow::Result<Vec<BenchPrompt>> {
    let shown = file.display();
    let parsed = parse_body(&read_file(file)?)
        .map_err(|error| anyhow::Error::from(error).context(shown.to_string()))?;
    let Value::Array(entries) = parsed else {
        return Err(invalid(format!(
            "{shown}: a JSON list of prompts is needed"
        )));
    };
    if entries.is_empty() {
        return Err(invalid(format!("{shown}: the list has no prompt")));
    }
    entries
        .into_iter()
        .enumerate()
        .map(|(i, entry)| {
            let Value::Object(mut entry) = entry else {
                return Err(invalid(format!("{shown}: entry {i} must be an object")));
            };
            let mut body = Map::new();
            body.insert("temperature".to_owned(), json!(0));
            let max_tokens = entry.remove("max_tokens").unwrap_or(json!(MAX_TOKENS));
            body.insert("max_tokens".to_owned(), max_tokens);
            let (messages, prompt) = (entry.remove("messages"), entry.remove("prompt"));
            let chat = messages.is_some();
            match (messages, prompt) {
                (Some(messages), None) => body.insert("messages".to_owned(), messages),
                (None, Some(prompt)) => body.insert("prompt".to_owned(), prompt),
                _ => {
                    return Err(invalid(format!(
                        "{shown}: entry {i} needs either `messages` or `prompt`"
                    )));
                }
            };
            let id = entry.remove("id").unwrap_or(json!(i));
            if let Some(key) = entry.keys().next() {
                return Err(invalid(format!(
                    "{shown}: entry {i} has {key:?}; id, messages, prompt and max_tokens are taken"
                )));
            }
            Ok(BenchPrompt {
                id,
                chat,
                body: Value::Object(body),
            })
        })
        .collect()
}

/// How long verify passes take, by their rows.
pub struct PassTimes {
    /// Milliseconds, for [`TIMED_ROWS`] as far as the context has room.
    times: Vec<(usize, f64)>,
}

impl PassTimes {
    /// Times passes after `context` positions. All row counts take turns, so that a change of the machine's speed meets
    /// them all.
    pub async fn measure<O: Ops>(engine: &Engine<O>, context: u32) -> anyhow::Result<Self> {
        let room = engine.limits().context.saturating_sub(context) as usize;
        let rows: Vec<usize> = TIMED_ROWS
            .into_iter()
            .filter(|rows| *rows <= room)
            .collect();
        let mut samples = vec![Vec::new(); rows.len()];
        for round in 0..=ROUNDS {
            for (rows, samples) in rows.iter().zip(&mut samples) {
                let time = engine.time_verify_pass(*rows, context).await?;
                // The first round makes pipelines and fills caches.
                if round > 0 {
                    samples.push(time);
                }
            }
        }
        let medians = samples
            .into_iter()
            .map(|samples| median(samples.into_iter()));
        Ok(Self {
            times: rows.into_iter().zip(medians).collect(),
        })
    }

    /// T(rows) / T(1).
    pub fn relative(&self) -> Value {
        let one = self.time(1);
        let shown = self
            .times
            .iter()
            .filter(|(rows, _)| SHOWN_ROWS.contains(rows));
        shown
            .map(|(rows, time)| (rows.to_string(), json!(time / one)))
            .collect::<Map<_, _>>()
            .into()
    }

    /// T(rows), on the line between the neighbours that were measured.
    fn time(&self, rows: usize) -> f64 {
        let after = self.times.partition_point(|(timed, _)| *timed < rows);
        match (after.checked_sub(1), self.times.get(after)) {
            (_, Some((timed, time))) if *timed == rows => *time,
            (Some(before), Some((to, late))) => {
                let (from, early) = self.times[before];
                early + (late - early) * (rows - from) as f64 / (to - from) as f64
            }
            (Some(before), None) => self.times[before].1,
            (None, _) => f64::NAN,
        }
    }
}

/// One run.
struct Run {
    tokens: Vec<TokenId>,
    rate: Option<f64>,
    /// The response's `metrics`.
    metrics: Value,
}

/// Runs a prompt plainly and with speculation in turn, and compares.
pub async fn compare<O: Device>(
    engine: &Engine<O>,
    prompt: &BenchPrompt,
    times: &PassTimes,
) -> anyhow::Result<Value> {
    let (mut plain, mut speculative) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        plain.push(run(engine, prompt, false).await?);
        speculative.push(run(engine, prompt, true).await?);
    }
    let rate = |runs: &[Run]| {
        let rates: Vec<f64> = runs.iter().filter_map(|run| run.rate).collect();
        (!rates.is_empty()).then(|| median(rates.into_iter()))
    };
    let (plain_rate, speculative_rate) = (rate(&plain), rate(&speculative));
    let first = &plain[0].tokens;
    let outputs_equal = plain
        .iter()
        .chain(&speculative)
        .all(|run| run.tokens == *first);
    let latest = &speculative[PAIRS - 1];
    let decoding = &latest.metrics["speculative_decoding"];
    let verified = decoding["num_draft_tokens"].as_u64().unwrap_or_default() > 0;
    let mut entry = json!({
        "prompt": prompt.id,
        "tokens": first.len(),
        "plain_tokens_per_second": plain_rate,
        "speculative_tokens_per_second": speculative_rate,
    });
    // A figure that says nothing of speculation is not given out as if it did.
    if verified && outputs_equal {
        entry["speedup"] = speculative_rate.zip(plain_rate).map(|(s, p)| s / p).into();
        entry["predicted_speedup"] = predicted(latest, times).into();
    }
    entry["outputs_equal"] = outputs_equal.into();
    entry["speculative_decoding"] = decoding.clone();
    let status = engine.speculation();
    if !status.active {
        entry["speculation"] = json!({ "active": false, "reason": status.reason });
    }
    Ok(entry)
}

/// Emitted tokens · T(1) / Σ over steps of (T(drafted + 1) + draft time).
fn predicted(run: &Run, times: &PassTimes) -> Option<f64> {
    let ours = &run.metrics["foretoken"];
    let steps = run.metrics["speculative_decoding"]["per_step_drafted"].as_array()?;
    let verifying: f64 = steps
        .iter()
        .filter_map(Value::as_u64)
        .map(|drafted| times.time(drafted as usize + 1))
        .sum();
    let cost = verifying
        + ours["plain_steps"].as_f64()? * times.time(1)
        + ours["draft_time_ms"].as_f64()?;
    // The first token is the prompt's pass's.
    let emitted = run.tokens.len().saturating_sub(1) as f64;
    Some(emitted * times.time(1) / cost)
}

async fn run<O: Device>(
    engine: &Engine<O>,
    prompt: &BenchPrompt,
    speculate: bool,
) -> anyhow::Result<Run> {
    let mut body = prompt.body.clone();
    if !speculate {
        body["speculative_config"] = Value::Null;
    }
    let limits = engine.limits();
    let abort = AbortSignal::new();
    if prompt.chat {
        let request = ChatCompletionRequest::parse(&body, &limits)?;
        finish(engine.chat(&request, abort)?).await
    } else {
        let request = CompletionRequest::parse(&body, &limits)?;
        finish(engine.complete(&request, abort)?).await
    }
}

async fn finish<O: Ops, S: Shape>(mut generation: Generation<O, S>) -> anyhow::Result<Run> {
    let mut tokens = Vec::new();
    while let Some(piece) = generation.next_piece().await? {
        tokens.extend(piece.token_ids);
    }
    let response = serde_json::to_value(generation.so_far())?;
    Ok(Run {
        tokens,
        rate: decode_rate(&generation),
        metrics: response["metrics"].clone(),
    })
}

/// An entry for people.
pub fn describe(entry: &Value) -> String {
    let rate = |name: &str| entry[name].as_f64().unwrap_or_default();
    let mut text = format!(
        "{}: plain {:.1} tok/s, speculative {:.1} tok/s",
        entry["prompt"],
        rate("plain_tokens_per_second"),
        rate("speculative_tokens_per_second"),
    );
    let accepted = &entry["speculative_decoding"];
    match (entry.get("speedup"), entry["outputs_equal"].as_bool()) {
        (Some(speedup), _) => {
            text += &format!(
                ", {:.2} times as fast ({:.2} predicted), {:.2} tokens a verify step",
                speedup.as_f64().unwrap_or_default(),
                rate("predicted_speedup"),
                accepted["mean_acceptance_length"]
                    .as_f64()
                    .unwrap_or_default(),
            );
        }
        (None, Some(false)) => text += ", but the outputs differ",
        (None, _) => text += ", nothing was drafted",
    }
    text + "\n"
}
