//! Level 3: SmolLM2 on the GPU gives transformers' ids and logits at the base tier.

use foretoken_gpu::Tier;
use foretoken_tests::golden::{GoldenFile, SMOLLM2_STOP_IDS, read_golden};
use foretoken_tests::gpu;
use foretoken_tests::greedy::{assert_golden, run_golden_case};
use foretoken_tests::model_file::{SMOLLM2, find_model, load_file};
use pollster::block_on;

fn run(test: &str, tier: Tier, cases: usize, max_tokens: usize) {
    let Some(path) = find_model(SMOLLM2, test) else {
        return;
    };
    let Some(mut ops) = gpu::open(tier) else {
        return;
    };
    let golden: GoldenFile = read_golden("smollm2-135m.json");
    let model = block_on(load_file(&mut ops, &path));
    assert!(
        golden.cases.len() >= cases,
        "the golden file has {cases} cases"
    );
    for case in golden.cases.iter().take(cases) {
        let run = block_on(run_golden_case(
            &mut ops,
            &*model,
            case,
            SMOLLM2_STOP_IDS,
            max_tokens,
        ))
        .unwrap();
        let worst = assert_golden(case, &run, max_tokens, 0.02);
        println!(
            "{tier} {}: {} ids equal, largest logit difference {worst:.5}",
            case.id,
            run.output_ids.len()
        );
    }
}

#[test]
fn six_golden_cases_of_24_tokens_at_the_base_tier() {
    run("gpu_golden", Tier::BASE, 6, 24);
}

#[test]
#[ignore = "minutes on a software driver; cargo xtask test --all"]
fn all_golden_cases_at_the_base_tier() {
    run("gpu_golden all", Tier::BASE, 20, 64);
}

#[test]
#[ignore = "minutes on a software driver; cargo xtask test --all"]
fn all_golden_cases_with_subgroups() {
    run(
        "gpu_golden subgroup",
        Tier::parse("subgroup").unwrap(),
        20,
        64,
    );
}
