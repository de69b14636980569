//! `bench --methods` on the GPU: n-gram look-ups in flight, drafts that a model makes in the submission that verifies them.

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{DATA, Output};
use serde_json::Value;

/// The summaries of all prompts, a method after the other, if there is a GPU; that there is none is said. Every output has to be
/// plain decoding's.
fn compare(
    [model, draft]: [&str; 2],
    methods: &str,
    config: &str,
    prompts: &[u8],
) -> Option<Vec<Value>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("methods-{methods}"));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("prompts.json");
    std::fs::write(&file, prompts).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_foretoken"))
        .args(["bench", "--json", "--no-tune", "--model", model])
        .args(["--draft-model", draft, "--methods", methods])
        .args(["--speculative-config", config, "--prompts"])
        .arg(&file)
        .env("FORETOKEN_MODELS", DATA)
        .env("HOME", &folder)
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let output = Output {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    };
    if output.code != Some(0) && output.json()["error"]["code"] == "webgpu_unavailable" {
        let required = std::env::var_os("FORETOKEN_REQUIRE_GPU").is_some_and(|value| value == "1");
        assert!(!required, "there is no GPU adapter");
        let _ = writeln!(std::io::stderr(), "SKIPPED: no GPU adapter to bench on");
        return None;
    }
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let report = output.json();
    for entry in report["speculative"].as_array().unwrap() {
        assert_eq!(entry["outputs_equal"], true, "{entry}");
    }
    // The count of weights has the draft model's too.
    assert!(report["counters"].get("weight_read_factor").is_none());
    assert!(report["draft_cost"].as_f64() > Some(0.0));
    let summaries = report["speculative_summary"].as_array().unwrap();
    let of_all = summaries.iter().filter(|summary| summary["kind"] == "all");
    let of_all: Vec<Value> = of_all.cloned().collect();
    let found: Vec<&str> = of_all
        .iter()
        .map(|summary| summary["method"].as_str().unwrap())
        .collect();
    assert_eq!(found.join(","), methods);
    Some(of_all)
}

#[test]
fn every_method_takes_its_turn() {
    let prompts = br#"[{"prompt": "The keeper the keeper the keeper the", "max_tokens": 16}]"#;
    let config = r#"{"method": "auto", "num_speculative_tokens": 3, "prompt_lookup_min": 1, "prompt_lookup_max": 3}"#;
    let methods = "ngram,suffix,draft_model,auto";
    compare(["tiny", "tiny_q4_0"], methods, config, prompts);
}

/// As its own draft SmolLM2 is always right, and it copies what it is asked to copy.
#[test]
#[ignore = "minutes on a software driver; cargo xtask test --all"]
fn drafts_of_smollm2_are_accepted() {
    let models = std::env::var_os("FORETOKEN_MODELS").map(PathBuf::from);
    let models = models
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/foretoken/models")));
    let model = models.unwrap_or_default().join("smollm2-135m.gguf");
    let model = model.to_str().unwrap();
    let all = include_str!("../../../tests/bench/prompts.json");
    let mut prompts: Vec<Value> = serde_json::from_str(all).unwrap();
    prompts.retain(|prompt| ["extract-4", "edit-4"].contains(&prompt["id"].as_str().unwrap()));
    for prompt in &mut prompts {
        prompt["max_tokens"] = 40.into();
    }
    let prompts = serde_json::to_vec(&prompts).unwrap();
    let config = r#"{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 2,
        "prompt_lookup_max": 4, "adaptive": false}"#;
    let methods = "ngram,suffix,draft_model";
    let Some(summaries) = compare([model, model], methods, config, &prompts) else {
        return;
    };
    for summary in &summaries {
        assert_eq!(summary["speedups"], 2, "{summary}");
        assert!(
            summary["num_accepted_draft_tokens"].as_u64() > Some(20),
            "{summary}"
        );
    }
    assert_eq!(
        summaries[2]["draft_acceptance_rate"], 1.0,
        "{}",
        summaries[2]
    );
}
