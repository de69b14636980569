//! `foretoken bench`: speed, and the counts behind it.

mod contexts;
mod llama_cpp;
mod roofline;

use std::path::PathBuf;

use foretoken_core::TokenId;
use foretoken_engine::{
    AbortSignal, CompletionRequest, Engine, PrefixReuse, SpeculativeMethod, StatisticsLevel,
};
use foretoken_gpu::Counters;
use serde_json::{Map, Value, json};

use self::llama_cpp::LlamaCpp;
use self::roofline::PassCosts;
use super::speculative::{self, BenchPrompt, PassTimes};
use crate::answer::decode_rate;
use crate::args::{BenchArgs, Peer};
use crate::device::{Device, Loaded, Task, with_model};
use crate::failure::{Status, invalid};
use crate::model_file;
use crate::stdout;

/// Tokens of the prompt, where the context has room for them and as many generated ones.
const PROMPT_TOKENS: u32 = 128;
/// Tokens generated a run, at most.
const DECODE_TOKENS: u32 = 64;
/// Runs that count; the median is shown. One more goes before them to warm up.
const RUNS: usize = 3;

/// Runs it.
pub async fn run(args: BenchArgs) -> anyhow::Result<Status> {
    let prompts = args.prompts.as_deref().map(speculative::read).transpose()?;
    let mut model = args.model;
    // The steps one by one are what a speed-up is predicted from.
    model.per_request_spec_decode_metrics = StatisticsLevel::Detailed;
    // Every run reads its whole prompt.
    model.prefix_reuse = PrefixReuse::Off;
    let speculative = model.speculative_config.is_some();
    let path = model_file::resolve(&model.model)?;
    if let Some(found) = path.to_str() {
        // So that a hub is asked once.
        model.model = found.to_owned();
    }
    if args.compare.is_some() && (path.is_dir() || model.quantize.is_some()) {
        return Err(invalid(
            "--compare runs the same file in both engines: give a .gguf file, without --quantize",
        ));
    }
    let task = Bench {
        json: args.json,
        compare: args.compare,
        model: path,
        speculative,
        methods: args.methods,
        prompts: prompts.unwrap_or_default(),
    };
    with_model(&model, task).await
}

struct Bench {
    json: bool,
    compare: Option<Peer>,
    /// The model's file.
    model: PathBuf,
    speculative: bool,
    /// Methods that take turns; none: what is configured.
    methods: Vec<SpeculativeMethod>,
    prompts: Vec<BenchPrompt>,
}

/// What one run measured.
struct Run {
    first_token_ms: f64,
    decode_tokens_per_second: f64,
    /// Counts of the decode steps after the first token, and how many those were.
    decode_counts: Option<(Counters, u64)>,
}

impl Task for Bench {
    async fn run<O: Device>(self, loaded: Loaded<O>) -> anyhow::Result<Status> {
        let engine = loaded.engine;
        let limits = engine.limits();
        let prompt_tokens = PROMPT_TOKENS.min(limits.context / 2).max(1);
        let decode_tokens = DECODE_TOKENS.min(limits.context.saturating_sub(prompt_tokens));
        if decode_tokens < 2 {
            return Err(invalid(format!(
                "a context of {} tokens is too short to measure",
                limits.context
            )));
        }
        // The device is probed before and after what is held against it.
        let early = roofline::probe(&engine)?;
        let mut runs = Vec::new();
        for run in 0..=RUNS {
            let measured = measure(&engine, prompt_tokens, decode_tokens).await?;
            if run > 0 {
                runs.push(measured);
            }
        }
        let first_token_ms = median(runs.iter().map(|run| run.first_token_ms));
        let decode = median(runs.iter().map(|run| run.decode_tokens_per_second));
        let prefill = f64::from(prompt_tokens) * 1e3 / first_token_ms;
        let times = PassTimes::measure(&engine, prompt_tokens).await?;
        let decode_at_context = contexts::decode(&engine).await?;
        let costs = PassCosts::count(&engine, prompt_tokens).await?;
        let late = roofline::probe(&engine)?;
        let device = engine.with_ops(|ops| (ops.adapter(), ops.tier_name()));
        let (adapter, tier) = device.expect("nothing else uses the engine");
        let mut report = json!({
            "adapter": adapter,
            "model": {
                "name": engine.model_name(),
                "model_type": engine.config().model_type,
                "context_length": limits.context,
            },
            "tier": tier,
            "load_ms": loaded.load_ms,
            "time_to_first_token_ms": first_token_ms,
            "prefill": [{ "tokens": prompt_tokens, "tokens_per_second": prefill }],
            "decode": { "tokens_per_second": decode, "context": prompt_tokens },
            "decode_at_context": decode_at_context,
            "verify_cost": times.relative(),
        });
        if let Some(draft) = engine.draft() {
            report["draft_model"] = json!(draft);
        }
        if let Some(draft_ms) = times.draft_ms() {
            report["draft_cost"] = json!(draft_ms / times.time(1));
        }
        if let Some((shape, source)) = loaded.tuning {
            report["tuning"] = json!({ "shape": shape.to_string(), "source": source });
        }
        if let (Some(early), Some(late), Some(costs)) = (early, late, &costs) {
            let best = roofline::best(early, late);
            report["roofline"] = costs.against(&best, engine.config(), &times, decode);
        }
        let counts = runs.last().and_then(|run| run.decode_counts);
        if let Some((counts, tokens)) = counts {
            // The weights there are, which are counted, are those of a draft model too.
            let costs = costs.as_ref().filter(|_| engine.draft().is_none());
            report["counters"] = counters(&counts, tokens, costs);
        }
        if self.speculative && !self.prompts.is_empty() {
            let (prompts, methods) = (&self.prompts, &self.methods);
            let entries = speculative::compare_all(&engine, prompts, methods, &times).await?;
            if !methods.is_empty() {
                report["speculative_summary"] = speculative::summarize(methods, &entries).into();
            }
            report["speculative"] = entries.into();
        }
        if let Some(peer) = self.compare {
            let mut llama_cpp = LlamaCpp::start(peer, &self.model, limits.context)?;
            let prompts = if self.prompts.is_empty() {
                let tokens = spread(prompt_tokens, limits.vocab);
                vec![BenchPrompt::of_tokens("tokens", &tokens, decode_tokens)]
            } else {
                self.prompts
            };
            report["compare"] = llama_cpp.compare(&engine, &prompts).await?;
        }
        if self.json {
            stdout::json_line(&report)?;
        } else {
            stdout::text(&describe(&report, &times))?;
        }
        Ok(Status::Done)
    }
}

/// Tokens spread over the vocabulary: what they say does not matter.
fn spread(count: u32, vocab: u32) -> Vec<TokenId> {
    (0..count)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 8) % vocab)
        .collect()
}

async fn measure<O: Device>(
    engine: &Engine<O>,
    prompt_tokens: u32,
    decode_tokens: u32,
) -> anyhow::Result<Run> {
    let limits = engine.limits();
    let body = json!({
        "prompt": spread(prompt_tokens, limits.vocab),
        "max_tokens": decode_tokens,
        "temperature": 0,
        "ignore_eos": true,
        "speculative_config": null,
    });
    let request = CompletionRequest::parse(&body, &limits)?;
    let mut generation = engine.complete(&request, AbortSignal::new())?;
    generation.next_piece().await?;
    let before = generation.ops().and_then(Device::counters);
    let steps_before = generation.usage().completion_tokens;
    generation.response().await?;
    let tokens = (generation.usage().completion_tokens - steps_before) as u64;
    let decode_counts = engine
        .with_ops(Device::counters)
        .flatten()
        .zip(before)
        .map(|(now, before)| (now.since(&before), tokens));
    let first_token_ms = generation.timing().first_token_ms.unwrap_or_default();
    let decode_tokens_per_second = decode_rate(&generation).unwrap_or_default();
    Ok(Run {
        first_token_ms,
        decode_tokens_per_second,
        decode_counts,
    })
}

/// Counts a token, in plain decoding, and what passes of several rows read.
fn counters(counts: &Counters, tokens: u64, costs: Option<&PassCosts>) -> Value {
    let per_token = |count: u64| json!(count as f64 / tokens as f64);
    let mut object = Map::new();
    object.insert(
        "dispatches_per_token".to_owned(),
        per_token(counts.dispatches),
    );
    object.insert("submits_per_token".to_owned(), per_token(counts.submits));
    object.insert("syncs_per_token".to_owned(), per_token(counts.syncs));
    object.insert(
        "objects_created_per_token".to_owned(),
        per_token(counts.objects_created()),
    );
    object.insert(
        "write_buffers_per_token".to_owned(),
        per_token(counts.write_buffers),
    );
    if let Some(costs) = costs {
        object.insert("weight_read_factor".to_owned(), costs.weight_read_factor());
    }
    object.insert(
        "largest_binding_bytes".to_owned(),
        counts.largest_buffer_bytes.into(),
    );
    object.insert("peak_device_bytes".to_owned(), counts.device_bytes.into());
    object.insert("weight_bytes".to_owned(), counts.weight_bytes.into());
    Value::Object(object)
}

/// The report for people.
fn describe(report: &Value, times: &PassTimes) -> String {
    let number = |pointer: &str| {
        report
            .pointer(pointer)
            .and_then(Value::as_f64)
            .unwrap_or_default()
    };
    let word = |pointer: &str| {
        report
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let matmul = match (word("/tuning/shape"), word("/tuning/source")) {
        ("", _) => String::new(),
        (shape, source) => format!("; matmul {shape}, {}", source.replace('_', " ")),
    };
    let mut text = format!(
        "{} on {} (tier {}{matmul})\nload {:.0} ms\nprefill of {} tokens: {:.1} tok/s, first token after {:.1} ms\n\
         decode at {} tokens: {:.1} tok/s\n",
        word("/model/name"),
        word("/adapter/name"),
        word("/tier"),
        number("/load_ms"),
        number("/prefill/0/tokens"),
        number("/prefill/0/tokens_per_second"),
        number("/time_to_first_token_ms"),
        number("/decode/context"),
        number("/decode/tokens_per_second"),
    );
    if let Some(draft) = report.get("draft_model") {
        let name = draft["name"].as_str().unwrap_or_default();
        let token_ms = times.draft_ms().unwrap_or_default();
        let cost = number("/draft_cost");
        text += &format!("draft model {name}: {token_ms:.2} ms a token, {cost:.2} T(1)\n");
    }
    text += &contexts::describe(&report["decode_at_context"]);
    if report.get("roofline").is_some() {
        text += &format!(
            "the device at best: reads {:.1} GB/s, {:.0} GFLOP/s, {:.1} us a dispatch; decoding reads weights at {:.0} % \
             of that\n",
            number("/roofline/read_gb_per_s"),
            number("/roofline/fma_gflop_per_s"),
            number("/roofline/dispatch_us"),
            number("/roofline/decode_fraction") * 100.0,
        );
    }
    text += &format!(
        "\n{:>4} {:>9} {:>10} {:>8} {:>12}\n",
        "rows", "T ms", "T / T(1)", "excess", "weight reads"
    );
    for rows in speculative::TIMED_ROWS {
        let shown = |pointer: &str| {
            report
                .pointer(&format!("{pointer}/{rows}"))
                .and_then(Value::as_f64)
                .map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
        };
        if times.covers(rows) {
            text += &format!(
                "{rows:>4} {:>9.2} {:>10.2} {:>8} {:>12}\n",
                times.time(rows),
                times.time(rows) / times.time(1),
                shown("/roofline/excess"),
                shown("/counters/weight_read_factor"),
            );
        }
    }
    if let Some(Value::Object(counters)) = report.get("counters") {
        text += "\n";
        for (name, value) in counters.iter().filter(|(_, value)| value.is_number()) {
            text += &format!("{:<26} {value}\n", name.replace('_', " "));
        }
    }
    if let Some(Value::Array(summaries)) = report.get("speculative_summary") {
        text += "\n";
        text += &speculative::describe_methods(summaries);
    } else if let Some(Value::Array(entries)) = report.get("speculative") {
        text += "\n";
        text += &speculative::describe(entries);
    }
    if let Some(compared) = report.get("compare") {
        text += "\n";
        text += &llama_cpp::describe(compared);
    }
    text
}

pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
