//! `bench --prompts`: the same prompts decoded plainly and with speculation, in turn.

mod summary;

use std::path::Path;

use foretoken_core::{Ops, TokenId};
use foretoken_engine::response::Shape;
use foretoken_engine::{
    AbortSignal, AcceptanceStatistics, ChatCompletionRequest, CompletionRequest, Engine,
    Generation, SpeculativeMethod, StepCosts, parse_body, predicted_speedup,
};
use serde_json::{Map, Value, json};

use super::bench::median;
use super::read_file;
use crate::answer::decode_rate;
use crate::device::Device;
use crate::failure::invalid;
use crate::progress::RunBar;

/// Tokens a prompt that does not say is answered with.
const MAX_TOKENS: u32 = 128;
/// Rounds of runs, a plain one and one of each method; the medians are shown.
const RUNS: usize = 3;
/// Row counts whose passes are timed, and those that are shown.
pub const TIMED_ROWS: [usize; 5] = [1, 2, 4, 8, 16];
const SHOWN_ROWS: [usize; 4] = [1, 2, 4, 8];
/// Drafts of a step of the draft model that is timed; its pass has one row more, which is among [`TIMED_ROWS`].
const TIMED_DRAFTS: usize = 3;
/// Rounds over all of these.
const ROUNDS: usize = 9;

/// One entry of the file.
pub struct BenchPrompt {
    id: Value,
    chat: bool,
    /// The request, but for `speculative_config`.
    body: Value,
}

impl BenchPrompt {
    /// A prompt of these tokens.
    pub fn of_tokens(id: &str, tokens: &[TokenId], max_tokens: u32) -> Self {
        Self {
            id: json!(id),
            chat: false,
            body: json!({ "temperature": 0, "max_tokens": max_tokens, "prompt": tokens }),
        }
    }

    /// The most tokens that it is answered with.
    pub fn max_tokens(&self) -> u32 {
        let asked = self.body["max_tokens"].as_u64();
        asked.map_or(MAX_TOKENS, |asked| u32::try_from(asked).unwrap_or(u32::MAX))
    }

    /// Its `id`.
    pub fn id(&self) -> &Value {
        &self.id
    }
}

/// An `id` without the quotes of a string.
pub fn shown_id(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
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

/// How long verify passes take, by their rows, and drafting.
pub struct PassTimes {
    /// Milliseconds, for [`TIMED_ROWS`] as far as the context has room.
    times: Vec<(usize, f64)>,
    /// Milliseconds of a token of the draft model in a step, where there is one.
    draft_ms: Option<f64>,
}

impl PassTimes {
    /// Times passes after `context` positions, and a draft model's drafts; where those cannot be timed there, they take what a pass of it
    /// took at load. All of them take turns, so that a change of the machine's speed meets them all.
    pub async fn measure<O: Ops>(engine: &Engine<O>, context: u32) -> anyhow::Result<Self> {
        let room = engine.limits().context.saturating_sub(context) as usize;
        let rows: Vec<usize> = TIMED_ROWS
            .into_iter()
            .filter(|rows| *rows <= room)
            .collect();
        let mut samples = vec![Vec::new(); rows.len()];
        let mut drafted = Vec::new();
        for round in 0..=ROUNDS {
            for (rows, samples) in rows.iter().zip(&mut samples) {
                let time = engine.time_verify_pass(*rows, context).await?;
                // The first round makes pipelines and fills caches.
                if round > 0 {
                    samples.push(time);
                }
            }
            let time = engine.time_drafted_step(TIMED_DRAFTS, context).await?;
            drafted.extend(time.filter(|_| round > 0));
        }
        let medians = samples
            .into_iter()
            .map(|samples| median(samples.into_iter()));
        let mut times = Self {
            times: rows.into_iter().zip(medians).collect(),
            draft_ms: engine.draft().map(|draft| draft.token_ms),
        };
        if !drafted.is_empty() {
            let drafting = median(drafted.into_iter()) - times.time(TIMED_DRAFTS + 1);
            times.draft_ms = Some(drafting.max(0.0) / TIMED_DRAFTS as f64);
        }
        Ok(times)
    }

    /// Milliseconds that a draft of the draft model adds to a step, where there is one.
    pub fn draft_ms(&self) -> Option<f64> {
        self.draft_ms
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

    /// What steps cost by them.
    fn costs(&self) -> Option<StepCosts> {
        let costs = StepCosts::from_measured(&self.times)?;
        Some(costs.with_draft_ms(self.draft_ms.unwrap_or_default()))
    }

    /// Whether passes of so many rows were timed.
    pub fn covers(&self, rows: usize) -> bool {
        self.times.iter().any(|(timed, _)| *timed == rows)
    }

    /// T(rows) in milliseconds; NaN for row counts that were not timed.
    pub fn time(&self, rows: usize) -> f64 {
        let timed = self.times.iter().find(|(timed, _)| *timed == rows);
        timed.map_or(f64::NAN, |(_, time)| *time)
    }
}

/// One run.
#[derive(Clone)]
pub struct Run {
    /// The prompt's tokens, if the request asked for token ids.
    pub prompt: Vec<TokenId>,
    /// The answer's.
    pub tokens: Vec<TokenId>,
    /// From the call to the first token.
    pub first_token_ms: Option<f64>,
    /// Tokens a second after the first.
    pub rate: Option<f64>,
    /// The response's `metrics`.
    metrics: Value,
    statistics: Option<AcceptanceStatistics>,
}

impl Run {
    /// What its steps should have gained by `costs`.
    fn predicted_speedup(&self, costs: &StepCosts) -> Option<f64> {
        // The first token is the prompt's pass's.
        let emitted = self.tokens.len().saturating_sub(1) as u64;
        predicted_speedup(emitted, self.statistics.as_ref()?, costs)
    }
}

/// The entries of all prompts.
pub async fn compare_all<O: Device>(
    engine: &Engine<O>,
    prompts: &[BenchPrompt],
    methods: &[SpeculativeMethod],
    times: &PassTimes,
) -> anyhow::Result<Vec<Value>> {
    let mut entries = Vec::new();
    let bar = RunBar::new(prompts.len() * RUNS * (1 + methods.len().max(1)));
    for prompt in prompts {
        bar.name(shown_id(&prompt.id));
        entries.extend(compare(engine, prompt, methods, times, &bar).await?);
    }
    Ok(entries)
}

/// What to say of `methods` together, of their `entries`.
pub fn summarize(methods: &[SpeculativeMethod], entries: &[Value]) -> Vec<Value> {
    let names: Vec<&str> = methods.iter().map(|method| method.name()).collect();
    summary::summarize(&names, entries)
}

/// What a request says to draft by the engine's configuration, or by another method.
fn drafting(engine: Option<SpeculativeMethod>, method: Option<SpeculativeMethod>) -> Value {
    let mut config = Map::new();
    if let Some(method) = method {
        config.insert("method".to_owned(), json!(method));
    }
    // Or a run would draft the answer of the one before.
    if let Some(SpeculativeMethod::Suffix | SpeculativeMethod::Auto) = method.or(engine) {
        let cached = "suffix_decoding_max_cached_requests";
        config.insert(cached.to_owned(), json!(0));
    }
    json!({ "speculative_config": config })
}

/// Runs a prompt plainly and with speculation in turn, and compares: an entry for each of `methods`, or without any one for what the
/// engine is configured to do.
async fn compare<O: Device>(
    engine: &Engine<O>,
    prompt: &BenchPrompt,
    methods: &[SpeculativeMethod],
    times: &PassTimes,
    bar: &RunBar,
) -> anyhow::Result<Vec<Value>> {
    let configured = engine.speculation().method;
    let ways: Vec<Option<SpeculativeMethod>> = match methods {
        [] => vec![None],
        methods => methods.iter().copied().map(Some).collect(),
    };
    let (mut plain, mut runs) = (Vec::new(), vec![Vec::new(); ways.len()]);
    for _ in 0..RUNS {
        plain.push(run(engine, prompt, &json!({ "speculative_config": null })).await?);
        bar.ran();
        for (way, runs) in ways.iter().zip(&mut runs) {
            runs.push(run(engine, prompt, &drafting(configured, *way)).await?);
            bar.ran();
        }
    }
    let costs = times.costs();
    let of_way =
        |(way, runs): (&Option<_>, &Vec<_>)| entry(prompt, *way, &plain, runs, costs.as_ref());
    Ok(ways.iter().zip(&runs).map(of_way).collect())
}

/// What the runs of a prompt by one method say beside the plain ones.
fn entry(
    prompt: &BenchPrompt,
    method: Option<SpeculativeMethod>,
    plain: &[Run],
    speculative: &[Run],
    costs: Option<&StepCosts>,
) -> Value {
    let rate = |runs: &[Run]| {
        let rates: Vec<f64> = runs.iter().filter_map(|run| run.rate).collect();
        (!rates.is_empty()).then(|| median(rates.into_iter()))
    };
    let (plain_rate, speculative_rate) = (rate(plain), rate(speculative));
    let first = &plain[0].tokens;
    let outputs_equal = plain
        .iter()
        .chain(speculative)
        .all(|run| run.tokens == *first);
    let latest = &speculative[speculative.len() - 1];
    let decoding = &latest.metrics["speculative_decoding"];
    let verified = decoding["num_draft_tokens"].as_u64().unwrap_or_default() > 0;
    let mut entry = json!({
        "prompt": prompt.id,
        "tokens": first.len(),
        "plain_tokens_per_second": plain_rate,
        "speculative_tokens_per_second": speculative_rate,
    });
    if let Some(method) = method {
        entry["method"] = json!(method);
    }
    // A figure that says nothing of speculation is not given out as if it did.
    if verified && outputs_equal {
        entry["speedup"] = speculative_rate.zip(plain_rate).map(|(s, p)| s / p).into();
        let predicted = costs
            .as_ref()
            .and_then(|costs| latest.predicted_speedup(costs));
        entry["predicted_speedup"] = predicted.into();
    }
    entry["outputs_equal"] = outputs_equal.into();
    entry["speculative_decoding"] = decoding.clone();
    let status = &latest.metrics["foretoken"];
    if status["active"] == false {
        entry["speculation"] = json!({ "active": false, "reason": status["reason"] });
    }
    entry
}

/// Answers a prompt; `changes` is an object of request fields that it does not have.
pub async fn run<O: Device>(
    engine: &Engine<O>,
    prompt: &BenchPrompt,
    changes: &Value,
) -> anyhow::Result<Run> {
    let mut body = prompt.body.clone();
    for (name, value) in changes.as_object().into_iter().flatten() {
        body[name] = value.clone();
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
    let mut response = serde_json::to_value(generation.so_far())?;
    let prompt = response["prompt_token_ids"].take();
    Ok(Run {
        prompt: serde_json::from_value::<Option<_>>(prompt)?.unwrap_or_default(),
        tokens,
        first_token_ms: generation.timing().first_token_ms,
        rate: decode_rate(&generation),
        metrics: response["metrics"].clone(),
        statistics: generation.statistics().cloned(),
    })
}

/// What an entry or a summary has under a key, for people.
fn number(value: &Value) -> String {
    value
        .as_f64()
        .map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

/// The summaries of several methods for people.
pub fn describe_methods(summaries: &[Value]) -> String {
    summary::describe(summaries)
}

/// The entries for people.
pub fn describe(entries: &[Value]) -> String {
    let mut text = format!(
        "{:<14} {:>11} {:>11} {:>8} {:>9} {:>13}\n",
        "prompt", "plain tok/s", "speculative", "speed-up", "predicted", "tokens a step"
    );
    for entry in entries {
        let accepted = &entry["speculative_decoding"];
        let note = match (entry["outputs_equal"].as_bool(), entry.get("speedup")) {
            (Some(false), _) => "  the outputs differ",
            (_, None) => "  nothing was drafted",
            _ => "",
        };
        text += &format!(
            "{:<14} {:>11} {:>11} {:>8} {:>9} {:>13}{note}\n",
            shown_id(&entry["prompt"]),
            number(&entry["plain_tokens_per_second"]),
            number(&entry["speculative_tokens_per_second"]),
            number(&entry["speedup"]),
            number(&entry["predicted_speedup"]),
            number(&accepted["mean_acceptance_length"]),
        );
    }
    for (kind, figures) in speedups_by_kind(entries) {
        let over_predicted = figures
            .iter()
            .map(|(speedup, predicted)| speedup / predicted);
        text += &format!(
            "{kind:<14} median speed-up {:.2} of {}, {:.2} times the predicted\n",
            median(figures.iter().map(|(speedup, _)| *speedup)),
            figures.len(),
            median(over_predicted),
        );
    }
    text
}

/// Speed-ups, and the predicted ones, of the entries with drafts, by [`summary::by_kind`].
fn speedups_by_kind(entries: &[Value]) -> Vec<(String, Vec<(f64, f64)>)> {
    let figures = |entry: &&Value| {
        let predicted = entry["predicted_speedup"].as_f64();
        entry["speedup"].as_f64().zip(predicted)
    };
    let with_drafts: Vec<&Value> = entries
        .iter()
        .filter(|entry| figures(entry).is_some())
        .collect();
    let kinds = summary::by_kind(&with_drafts).into_iter();
    kinds
        .map(|(kind, entries)| (kind, entries.iter().filter_map(figures).collect()))
        .filter(|(_, figures): &(_, Vec<_>)| !figures.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_kinds_and_of_all() {
        let entry = |id: &str, speedup: f64| json!({ "prompt": id, "speedup": speedup, "predicted_speedup": 2.0 });
        let entries = [
            entry("edit-1", 1.0),
            entry("code-1", 3.0),
            entry("edit-2", 2.0),
            json!({ "prompt": "prose-1", "outputs_equal": true }),
        ];
        let kinds = speedups_by_kind(&entries);
        let names: Vec<&str> = kinds.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["edit", "code", "all"]);
        assert_eq!(kinds[0].1, [(1.0, 2.0), (2.0, 2.0)]);
        assert_eq!(kinds[2].1, [(1.0, 2.0), (3.0, 2.0), (2.0, 2.0)]);
        assert_eq!(speedups_by_kind(&entries[3..]), []);
    }
}
