//! Level 5: the kernels in a headless browser, in a dedicated worker: TINY's ids equal transformers', and rows are
//! bitwise invariant, on the f32 path without subgroups. Natively this file holds no test.
#![cfg(target_arch = "wasm32")]

use foretoken_decode::check_row_invariance;
use foretoken_gpu::{GpuOps, GpuOptions, Tier};
use foretoken_models::{LoadOptions, load_model};
use foretoken_tests::golden::TinyGolden;
use foretoken_tests::greedy::greedy;
use foretoken_weights::{BytesSource, Gguf};
use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_dedicated_worker);

const FILES: [(&str, &[u8]); 4] = [
    ("tiny.gguf", include_bytes!("../data/tiny.gguf")),
    ("tiny_q4_1.gguf", include_bytes!("../data/tiny_q4_1.gguf")),
    ("tiny_q8_0.gguf", include_bytes!("../data/tiny_q8_0.gguf")),
    ("tiny_mixed.gguf", include_bytes!("../data/tiny_mixed.gguf")),
];

#[wasm_bindgen_test]
async fn tiny_answers_in_the_browser_as_it_does_natively() {
    let golden: TinyGolden =
        serde_json::from_str(include_str!("../golden/tiny.json")).expect("golden file");
    for (file, bytes) in FILES {
        let options = GpuOptions {
            tier: Some(Tier::BASE),
            ..GpuOptions::default()
        };
        let mut ops = GpuOps::new(options).await.expect("the browser has WebGPU");
        let source = BytesSource(bytes);
        let gguf = Gguf::read(&source).await.expect("tiny is valid");
        let model = load_model(
            &mut ops,
            &gguf,
            &source,
            LoadOptions::default(),
            &mut |_, _| {},
        )
        .await
        .expect("loads");
        assert_eq!(
            check_row_invariance(&mut ops, &*model).await.expect("runs"),
            None,
            "{file}: row invariance"
        );
        for (name, case) in &golden.files[file] {
            let prompt = &golden.prompts[name].prompt_ids;
            let run = greedy(&mut ops, &*model, prompt, &[], case.output_ids.len())
                .await
                .expect("runs");
            assert_eq!(run.output_ids, case.output_ids, "{file} {name}: ids");
            for (got, expected) in run.prompt_logits.iter().zip(&case.logits) {
                assert!(
                    (got - expected).abs() <= 2e-4,
                    "{file} {name}: {got} where the reference has {expected}"
                );
            }
        }
    }
}
