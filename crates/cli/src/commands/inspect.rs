//! `foretoken inspect`: what a file holds, and whether it would run here.

mod memory;

use foretoken_engine::{Error, ModelReport, SpecialTokens, TemplateReport};
use foretoken_gpu::AdapterReport;
use foretoken_weights::FileSource;
use serde_json::json;

use self::memory::Memory;
use crate::args::InspectArgs;
use crate::failure::Status;
use crate::size::size;
use crate::{model_file, stdout};

/// Runs it.
pub async fn run(args: InspectArgs) -> anyhow::Result<Status> {
    let file = model_file::resolve(&args.model)?;
    let source = FileSource::open(&file).map_err(Error::from)?;
    let mut report = foretoken_engine::inspect(&source, args.quantize).await?;
    if report.problems.is_empty() {
        let problem = memory::problem(&source, args.quantize).await;
        report.problems.extend(problem);
    }
    let adapter = foretoken_gpu::adapters().await.into_iter().next();
    let memory = match report.problems.is_empty() && adapter.is_some() {
        true => memory::plan(&source, &report, args.quantize).await,
        false => None,
    };
    if args.json {
        stdout::json_line(&json!({
            "file": file,
            "model": report,
            "runs": report.problems.is_empty(),
            "adapter": adapter.map(|adapter| adapter.name),
            "memory": memory,
        }))?;
    } else {
        let mut text = describe(&file.display().to_string(), &report);
        if report.problems.is_empty() {
            text += &how_it_runs(&report, adapter.as_ref(), memory.as_ref());
        }
        stdout::text(&text)?;
    }
    Ok(Status::Done)
}

fn describe(file: &str, report: &ModelReport) -> String {
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
    let mut text = format!(
        "{file}: {}, {}\nname          {}\narchitecture  {}\n",
        match report.gguf_version {
            Some(version) => format!("GGUF version {version}"),
            None => "safetensors folder".to_owned(),
        },
        size(report.file_bytes),
        or_none(&report.name),
        or_none(&report.architecture),
    );
    for (name, value) in &report.dimensions {
        text += &format!("  {name:<26}{value}\n");
    }
    if let Some(window) = report.sliding_window {
        text += &format!("  {:<26}{window}\n", "sliding window");
    }
    if let Some(rope) = &report.rope_scaling {
        let factor = rope.factor.map(|factor| format!(" by {factor}"));
        let original = rope
            .original_context_length
            .map(|original| format!(", trained for {original} positions before"));
        text += &format!(
            "  {:<26}{}{}{}\n",
            "rope scaling",
            rope.kind,
            factor.unwrap_or_default(),
            original.unwrap_or_default()
        );
    }
    text += &format!(
        "tokenizer     {}{}, {} tokens, {}\n{}{}tensors       {}, {}\n",
        or_none(&report.tokenizer[0]),
        match report.gguf_version {
            Some(_) => format!(" (pre-tokenizer {})", or_none(&report.tokenizer[1])),
            None => String::new(),
        },
        report.vocabulary,
        if report.chat {
            "with a chat template"
        } else {
            "no usable chat template"
        },
        report
            .special_tokens
            .as_ref()
            .map(special)
            .unwrap_or_default(),
        report.template.as_ref().map(template).unwrap_or_default(),
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
    text
}

fn special(tokens: &SpecialTokens) -> String {
    let bos = match &tokens.bos {
        None => "none".to_owned(),
        Some(bos) => format!(
            "{} {}, {}",
            bos.id,
            bos.text,
            match tokens.adds_bos {
                true => "put before texts",
                false => "not put before texts",
            }
        ),
    };
    let ends: Vec<String> = tokens
        .end_of_generation
        .iter()
        .map(|token| format!("{} {}", token.id, token.text))
        .collect();
    let ends = match ends.is_empty() {
        true => "nothing".to_owned(),
        false => ends.join(", "),
    };
    format!(
        "  {:<26}{bos}\n  {:<26}{ends}\n",
        "begins with", "answers end at"
    )
}

fn template(template: &TemplateReport) -> String {
    let yes = |yes: bool, what: &'static str| yes.then_some(what);
    let told: Vec<&str> = [
        yes(template.tools, "shows tools"),
        yes(template.tool_calls, "calls are told apart"),
        yes(template.reasoning, "reasoning is told apart"),
        yes(template.enable_thinking, "takes enable_thinking"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut text = format!("  {:<26}{} bytes", "chat template", template.bytes);
    for part in template.marks.iter().chain(&told) {
        text += &format!(", {part}");
    }
    text + "\n"
}

fn how_it_runs(
    report: &ModelReport,
    adapter: Option<&AdapterReport>,
    memory: Option<&Memory>,
) -> String {
    let Some(adapter) = adapter else {
        return format!(
            "no GPU adapter was found; would run with --device cpu, slowly, with {} of weights\n",
            size(report.loaded_bytes)
        );
    };
    let mut text = format!(
        "would run on {} (tier {}{}) with about {} of weights\n",
        adapter.name,
        adapter.tier,
        if adapter.software { ", software" } else { "" },
        size(
            memory
                .and_then(Memory::weights)
                .unwrap_or(report.loaded_bytes)
        )
    );
    if let Some(memory) = memory {
        text += &memory.describe();
    }
    text
}
