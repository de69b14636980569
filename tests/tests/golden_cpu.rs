//! SmolLM2-135M on `CpuOps` against transformers (`golden/smollm2-135m.json`): six cases, or all 20 to their ends.

use foretoken_reference::CpuOps;
use foretoken_tests::golden::{GoldenFile, SMOLLM2_STOP_IDS, read_golden};
use foretoken_tests::greedy::{assert_golden, run_golden_case};
use foretoken_tests::model_file::{SMOLLM2, find_model, load_file};

/// On logits of up to 30; what the kernels are held to. `CpuOps` itself stays below 1e-4.
const TOLERANCE: f32 = 0.02;

#[test]
fn six_cases_of_smollm2_equal_transformers() {
    smollm2_equals_transformers(6, 24);
}

#[test]
#[ignore = "minutes on few cores; cargo xtask test --all"]
fn all_golden_cases_of_smollm2_equal_transformers() {
    smollm2_equals_transformers(20, 64);
}

fn smollm2_equals_transformers(cases: usize, max_tokens: usize) {
    let Some(path) = find_model(SMOLLM2, "smollm2_equals_transformers") else {
        return;
    };
    let golden: GoldenFile = read_golden("smollm2-135m.json");
    assert_eq!(golden.cases.len(), 20);
    let mut ops = CpuOps::new();
    let model = pollster::block_on(load_file(&mut ops, &path));
    for case in golden.cases.iter().take(cases) {
        let run = run_golden_case(&mut ops, &*model, case, SMOLLM2_STOP_IDS, max_tokens);
        let run = pollster::block_on(run).expect("CpuOps never fails");
        let worst = assert_golden(case, &run, max_tokens, TOLERANCE);
        println!(
            "{}: {} prompt tokens, {} generated; largest difference of a logit {worst}",
            case.id,
            case.prompt_ids.len(),
            run.output_ids.len()
        );
    }
}
