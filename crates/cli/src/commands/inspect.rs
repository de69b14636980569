//! `foretoken inspect`: what a file holds, and whether it would run here.

use foretoken_engine::{Error, ModelReport};
use foretoken_gpu::AdapterReport;
use foretoken_weights::FileSource;
use serde_json::json;

use crate::args::InspectArgs;
use crate::failure::Status;
use crate::{model_file, stdout};

/// Runs it.
pub async fn run(args: InspectArgs) -> anyhow::Result<Status> {
    let file = model_file::resolve(&args.model)?;
    let source = FileSource::open(&file).map_err(Error::from)?;
    let report = foretoken_engine::inspect(&source).await?;
    let adapter = foretoken_gpu::adapters().await.into_iter().next();
    if args.json {
        stdout::json_line(&json!({
            "file": file,
            "model": report,
            "runs": report.problems.is_empty(),
            "adapter": adapter.map(|adapter| adapter.name),
        }))?;
    } else {
        stdout::text(&describe(
            &file.display().to_string(),
            &report,
            adapter.as_ref(),
        ))?;
    }
    Ok(Status::Done)
}

fn describe(file: &str, report: &ModelReport, adapter: Option<&AdapterReport>) -> String {
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
    let mut text = format!(
        "{file}: GGUF version {}, {}\nname          {}\narchitecture  {}\n",
        report.gguf_version,
        size(report.file_bytes),
        or_none(&report.name),
        or_none(&report.architecture),
    );
    for (name, value) in &report.dimensions {
        text += &format!("  {name:<26}{value}\n");
    }
    text += &format!(
        "tokenizer     {} (pre-tokenizer {}), {} tokens, {}\ntensors       {}, {}\n",
        or_none(&report.tokenizer[0]),
        or_none(&report.tokenizer[1]),
        report.vocabulary,
        if report.chat {
            "with a chat template"
        } else {
            "no usable chat template"
        },
        report.tensors,
        size(report.weight_bytes),
    );
    for format in &report.formats {
        text += &format!(
            "  {:<8}{:>5} tensors, {}\n",
            format.name,
            format.tensors,
            size(format.bytes)
        );
    }
    for remark in &report.remarks {
        text += &format!("note: {remark}\n");
    }
    for problem in &report.problems {
        text += &format!("does not load: {problem}\n");
    }
    if report.problems.is_empty() {
        text += &how_it_runs(report, adapter);
    }
    text
}

fn how_it_runs(report: &ModelReport, adapter: Option<&AdapterReport>) -> String {
    let kv = report
        .kv_cache_bytes
        .map(|bytes| format!(" and about {} of KV cache", size(bytes)));
    let needs = format!(
        "{} of weights{}",
        size(report.weight_bytes),
        kv.unwrap_or_default()
    );
    match adapter {
        Some(adapter) => format!(
            "would run on {} (tier {}{}) with about {needs}\n",
            adapter.name,
            adapter.tier,
            if adapter.software { ", software" } else { "" }
        ),
        None => {
            format!("no GPU adapter was found; would run with --device cpu, slowly, with {needs}\n")
        }
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", bytes as f64 / 1_073_741_824.0),
    }
}
