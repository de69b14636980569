//! Level 3: models of several architectures on the GPU give transformers' ids over the file's own weights, up to the first step
//! where the reference itself hardly tells the first two tokens apart.

use foretoken_core::TokenId;
use foretoken_gpu::Tier;
use foretoken_tests::golden::read_golden;
use foretoken_tests::gpu;
use foretoken_tests::greedy::greedy;
use foretoken_tests::model_file::{find_model, load_file};
use pollster::block_on;
use serde::Deserialize;

/// Tokens compared a case.
const MAX_TOKENS: usize = 48;
/// The difference of the reference's two largest logits below which the choice is rounding's.
const NEAR_TIE: f32 = 0.02;

/// `golden/<model>.json`.
#[derive(Deserialize)]
struct File {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    prompt_ids: Vec<TokenId>,
    output_ids: Vec<TokenId>,
    /// The largest logit minus the second of each step.
    gaps: Vec<f32>,
}

fn run(model: &str, stop: &[TokenId]) {
    let Some(path) = find_model(&format!("{model}.gguf"), "gpu_golden_models") else {
        return;
    };
    let Some(mut ops) = gpu::open(Tier::BASE) else {
        return;
    };
    let golden: File = read_golden(&format!("{model}.json"));
    assert_eq!(golden.cases.len(), 8, "{model}: cases");
    let loaded = block_on(load_file(&mut ops, &path));
    for case in &golden.cases {
        let tie = case.gaps.iter().position(|gap| *gap < NEAR_TIE);
        let clear = tie.unwrap_or(MAX_TOKENS).min(case.output_ids.len());
        let clear = clear.min(MAX_TOKENS);
        assert!(clear >= 2, "{model} {}: {clear} clear steps", case.id);
        let run = greedy(&mut ops, &*loaded, &case.prompt_ids, stop, clear);
        let run = block_on(run).unwrap();
        assert_eq!(
            run.output_ids,
            case.output_ids[..clear],
            "{model} {}",
            case.id
        );
        println!("{model} {}: {clear} ids equal", case.id);
    }
}

#[test]
#[ignore = "another model and minutes on a software driver; cargo xtask test --all"]
fn all_golden_cases_of_gemma3_270m() {
    run("gemma3-270m", &[1, 106]);
}

#[test]
#[ignore = "another model and minutes on a software driver; cargo xtask test --all"]
fn all_golden_cases_of_qwen2_5_coder_0_5b() {
    run("qwen2.5-coder-0.5b", &[151_645, 151_643]);
}

#[test]
#[ignore = "another model and minutes on a software driver; cargo xtask test --all"]
fn all_golden_cases_of_qwen2_5_coder_1_5b() {
    run("qwen2.5-coder-1.5b", &[151_645, 151_643]);
}
