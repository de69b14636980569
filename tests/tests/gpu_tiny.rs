//! Levels 2 and 3 on TINY: every tiny file on every tier gives transformers' logits and ids.

use foretoken_gpu::Tier;
use foretoken_tests::golden::{TINY_GOLDENS, TinyGolden, data_file, read_golden};
use foretoken_tests::gpu;
use foretoken_tests::greedy::greedy;
use foretoken_tests::model_file::load_file;
use pollster::block_on;

#[test]
fn tiny_models_give_the_reference_logits_and_ids_on_every_tier() {
    for golden in TINY_GOLDENS.map(read_golden) {
        every_tier(&golden);
    }
}

fn every_tier(golden: &TinyGolden) {
    for tier in Tier::ALL {
        for (file, cases) in &golden.files {
            let Some(mut ops) = gpu::open(tier) else {
                continue;
            };
            let model = block_on(load_file(&mut ops, &data_file(file)));
            for (name, case) in cases {
                let prompt = &golden.prompts[name].prompt_ids;
                let tokens = case.output_ids.len();
                let run = block_on(greedy(&mut ops, &*model, prompt, &[], tokens)).unwrap();
                // f16 keys and values move logits; ids then hold only where the reference's choice is clear.
                // More of them are rounded in a longer prompt.
                let tolerance = match (tier.f16, prompt.len() > 64) {
                    // A hundredth of the largest logits.
                    (true, true) => 0.15,
                    (true, false) => 2e-2,
                    (false, _) => 2e-4,
                };
                for (i, (got, expected)) in run.prompt_logits.iter().zip(&case.logits).enumerate() {
                    let near = (got - expected).abs() <= tolerance;
                    assert!(
                        near,
                        "{tier} {file} {name}: logit {i} is {got}, the reference has {expected}"
                    );
                }
                if !tier.f16 {
                    assert_eq!(run.output_ids, case.output_ids, "{tier} {file} {name}");
                }
            }
        }
    }
}
