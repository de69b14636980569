//! SmolLM2-135M on `CpuOps` against transformers (`golden/smollm2-135m.json`): all 20 cases, to their ends.

use foretoken_reference::CpuOps;
use foretoken_tests::golden::{GoldenFile, SMOLLM2_STOP_IDS, read_golden};
use foretoken_tests::greedy::{assert_golden, run_golden_case};
use foretoken_tests::model_file::{SMOLLM2, find_model, load_file};

/// New tokens a case has at most.
const MAX_TOKENS: usize = 64;
/// On logits of up to 30; what the kernels are held to. `CpuOps` itself stays below 1e-4.
const TOLERANCE: f32 = 0.02;

#[test]
fn smollm2_equals_transformers() {
    let Some(path) = find_model(SMOLLM2, "smollm2_equals_transformers") else {
        return;
    };
    let golden: GoldenFile = read_golden("smollm2-135m.json");
    assert_eq!(golden.cases.len(), 20);
    let mut ops = CpuOps::new();
    let model = pollster::block_on(load_file(&mut ops, &path));
    for case in &golden.cases {
        let run = run_golden_case(&mut ops, &*model, case, SMOLLM2_STOP_IDS, MAX_TOKENS);
        let run = pollster::block_on(run).expect("CpuOps never fails");
        let worst = assert_golden(case, &run, MAX_TOKENS, TOLERANCE);
        println!(
            "{}: {} prompt tokens, {} generated; largest difference of a logit {worst}",
            case.id,
            case.prompt_ids.len(),
            run.output_ids.len()
        );
    }
}
