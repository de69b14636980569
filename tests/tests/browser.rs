//! Level 5: the kernels in a headless browser, in a dedicated worker, on every tier that its adapter has: TINY's ids equal
//! transformers', rows are bitwise invariant, drafts change no token, every pipeline compiles. Natively this file holds no
//! test; `gpu_parity.rs` runs in both places.
#![cfg(target_arch = "wasm32")]

use foretoken_core::{LanguageModel, Sampling, TokenId};
use foretoken_decode::drafters::{MatchOrder, NgramDrafter};
use foretoken_decode::{
    AbortSignal, DecodeLoop, DecodeOptions, Drafter, Sequence, StatisticsLevel, StopConditions,
    check_row_invariance,
};
use foretoken_gpu::{Coverage, GpuOps, GpuOptions, Tier, adapters};
use foretoken_models::{LoadOptions, load_model};
use foretoken_tests::golden::TinyGolden;
use foretoken_tests::greedy::greedy;
use foretoken_weights::quant::FORMATS;
use foretoken_weights::{BytesSource, Gguf};
use wasm_bindgen_test::{console_log, wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_dedicated_worker);

const FILES: [(&str, &[u8]); 4] = [
    ("tiny.gguf", include_bytes!("../data/tiny.gguf")),
    ("tiny_q4_1.gguf", include_bytes!("../data/tiny_q4_1.gguf")),
    ("tiny_q8_0.gguf", include_bytes!("../data/tiny_q8_0.gguf")),
    ("tiny_mixed.gguf", include_bytes!("../data/tiny_mixed.gguf")),
];

/// The tiers of the browser's adapter.
async fn tiers() -> Vec<Tier> {
    let adapters = adapters().await;
    let adapter = adapters.first().expect("the browser has WebGPU");
    let has = |tier: &Tier| adapter.tier.includes(*tier);
    Tier::ALL.into_iter().filter(has).collect()
}

async fn open(tier: Tier) -> GpuOps {
    let options = GpuOptions {
        tier: Some(tier),
        ..GpuOptions::default()
    };
    GpuOps::new(options).await.expect("an adapter opens")
}

async fn load(ops: &mut GpuOps, bytes: &[u8]) -> Box<dyn LanguageModel<GpuOps>> {
    let source = BytesSource(bytes);
    let gguf = Gguf::read(&source).await.expect("tiny is valid");
    let options = LoadOptions::default();
    let model = load_model(ops, &gguf, &source, options, &mut |_, _| {}).await;
    model.expect("loads")
}

#[wasm_bindgen_test]
async fn chromium_offers_subgroups_and_they_are_asked_for() {
    let tiers = tiers().await;
    let adapter = &adapters().await[0];
    console_log!("{:?}: {tiers:?}", adapter);
    assert!(tiers.iter().any(|tier| tier.subgroups), "{adapter:?}");
}

#[wasm_bindgen_test]
async fn tiny_answers_in_the_browser_as_it_does_natively() {
    let golden: TinyGolden =
        serde_json::from_str(include_str!("../golden/tiny.json")).expect("golden file");
    // f16 keys and values are another sum.
    for tier in tiers().await.into_iter().filter(|tier| !tier.f16) {
        for (file, bytes) in FILES {
            let mut ops = open(tier).await;
            let model = load(&mut ops, bytes).await;
            assert_eq!(
                check_row_invariance(&mut ops, &*model).await.expect("runs"),
                None,
                "{tier} {file}: row invariance"
            );
            for (name, case) in &golden.files[file] {
                let prompt = &golden.prompts[name].prompt_ids;
                let run = greedy(&mut ops, &*model, prompt, &[], case.output_ids.len())
                    .await
                    .expect("runs");
                assert_eq!(run.output_ids, case.output_ids, "{tier} {file} {name}: ids");
                for (got, expected) in run.prompt_logits.iter().zip(&case.logits) {
                    assert!(
                        (got - expected).abs() <= 2e-4,
                        "{tier} {file} {name}: {got} where the reference has {expected}"
                    );
                }
            }
        }
    }
}

/// The tokens after a prompt that repeats itself, with so many drafts a step; and how many drafts were accepted.
async fn drafted(
    ops: &mut GpuOps,
    model: &dyn LanguageModel<GpuOps>,
    sampling: &Sampling,
    k: usize,
) -> (Vec<TokenId>, u64) {
    let stop = StopConditions {
        token_ids: Vec::new(),
        max_tokens: 40,
        context: model.context_length() as usize,
    };
    let mut options = DecodeOptions {
        sampling: sampling.clone(),
        ..DecodeOptions::plain(stop)
    };
    if k > 0 {
        let drafter = NgramDrafter::new(1, 3, MatchOrder::Earliest);
        options.drafter = Some(Box::new(drafter) as Box<dyn Drafter>);
        options.num_speculative_tokens = k;
        options.statistics = StatisticsLevel::Summary;
    }
    let mut sequence = Sequence::new(0);
    sequence.commit(&[5, 9, 7, 5, 9, 7, 5, 9, 7, 5]);
    let mut decode = DecodeLoop::new(sequence, options, AbortSignal::new());
    decode.step(ops, model).await.expect("prefills");
    while decode.finish().is_none() {
        decode.step(ops, model).await.expect("steps");
    }
    let accepted = decode
        .statistics()
        .map_or(0, |s| s.num_accepted_draft_tokens);
    (decode.generated().to_vec(), accepted)
}

#[wasm_bindgen_test]
async fn drafts_change_no_token() {
    let mut accepted = 0;
    for tier in tiers().await {
        let mut ops = open(tier).await;
        let model = load(&mut ops, FILES[3].1).await;
        for temperature in [0.0, 0.8] {
            for seed in 0..4 {
                let sampling = Sampling {
                    temperature,
                    seed,
                    ..Sampling::greedy()
                };
                let (plain, _) = drafted(&mut ops, &*model, &sampling, 0).await;
                for k in [1, 3, 4, 7, 15] {
                    let (tokens, taken) = drafted(&mut ops, &*model, &sampling, k).await;
                    assert_eq!(
                        tokens, plain,
                        "{tier}: {k} drafts at {temperature}, seed {seed}"
                    );
                    accepted += taken;
                }
            }
        }
    }
    assert!(accepted > 0, "no draft was ever accepted");
}

/// The kernels that the adapter may come to run, each made into a pipeline by the browser.
#[wasm_bindgen_test]
#[ignore = "minutes; cargo xtask test --all"]
async fn every_pipeline_compiles() {
    let mut made = 0;
    // The fullest: what plainer ones run is nearly all among its kernels.
    if let Some(tier) = tiers().await.pop() {
        let mut ops = open(tier).await;
        made += ops
            .compile_catalog(FORMATS, Coverage::Pairwise)
            .await
            .expect("every kernel compiles");
    }
    console_log!("{made} pipelines");
    assert!(made > 100);
}
