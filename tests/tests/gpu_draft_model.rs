//! Draft models on the GPU: the kernel that makes a draft is its definition, a step waits once and creates nothing, a model that
//! drafts for itself is always right, and answers are those of plain decoding, whoever drafts.

use foretoken_core::{
    DraftChoice, DraftStart, Drafted, LanguageModel, NO_COUNTERPART, Ops, Phase, Row, Sampling,
    TokenId,
};
use foretoken_decode::{
    AbortSignal, DecodeLoop, DecodeOptions, Draft, DraftCache, Sequence, StatisticsLevel,
    StopConditions,
};
use foretoken_engine::{
    CompletionRequest, DraftSource, Engine, EngineOptions, SpeculativeConfig,
    StatisticsLevel as Level,
};
use foretoken_gpu::{GpuOps, Tier};
use foretoken_reference::CpuOps;
use foretoken_tests::golden::{GoldenFile, data_file, read_golden};
use foretoken_tests::gpu;
use foretoken_tests::model_file::{SMOLLM2, find_model, load_file};
use foretoken_weights::FileSource;
use pollster::block_on;
use serde_json::{Value, json};

/// Drafts after three tokens, and what the target, which is the same model, chooses.
fn drafted<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
    k: u32,
    log_confidence: Option<f32>,
    to_target: Option<&O::TokenMap>,
) -> Drafted {
    let row = |token, position| Row {
        token,
        position,
        sequence: 0,
    };
    let vocab = model.config().vocab_size;
    ops.set_sampling(0, &Sampling::greedy(), &[40, 50], vocab)
        .unwrap();
    ops.begin(Phase::Rows, &[row(40, 0), row(50, 1)], 0);
    model.forward(ops);
    ops.submit().unwrap();
    ops.start_draft(&DraftStart {
        token: 60,
        position: 2,
        sequence: 0,
        log_confidence: log_confidence.unwrap_or(f32::MIN),
    });
    for index in 0..k {
        match index {
            0 => ops.begin(Phase::Rows, &[row(50, 1), row(60, 2)], 1),
            _ => ops.begin_next(0, 2 + index),
        }
        let logits = model.forward(ops);
        let choice = DraftChoice {
            index,
            last: index + 1 == k,
            stops_early: log_confidence.is_some(),
            vocab,
        };
        ops.draft(logits, &choice, to_target);
    }
    ops.begin_next(k as usize, 2 + k);
    let logits = model.forward(ops);
    ops.choose(logits);
    ops.submit().unwrap();
    block_on(ops.read_drafted()).unwrap()
}

#[test]
fn the_kernel_is_the_definition() {
    let path = data_file("tiny.gguf");
    let mut cpu = CpuOps::new();
    let on_cpu = block_on(load_file(&mut cpu, &path));
    let whole = drafted(&mut cpu, &*on_cpu, 6, Some(f32::MIN), None);
    assert_eq!(whole.drafts.len(), 6);
    // Between two confidences each: the device's differ in their last bits. The first token below it is the last.
    let limits: Vec<f32> = std::iter::once(0.0)
        .chain(whole.log_confidences.iter().copied())
        .zip(&whole.log_confidences)
        .map(|(a, b)| (a + b) / 2.0)
        .collect();
    let vocab = on_cpu.config().vocab_size;
    // What the fourth draft has become has no counterpart, all others have another one.
    let mut ids: Vec<TokenId> = (0..vocab).map(|id| (id + 7) % vocab).collect();
    ids[whole.drafts[3] as usize] = NO_COUNTERPART;
    for tier in Tier::ALL {
        let Some(mut gpu) = gpu::open(tier) else {
            continue;
        };
        let on_gpu = block_on(load_file(&mut gpu, &path));
        for k in [1, 2, 6, 15] {
            let expected = drafted(&mut cpu, &*on_cpu, k, None, None);
            let got = drafted(&mut gpu, &*on_gpu, k, None, None);
            assert_eq!(got, expected, "{tier} {k}");
        }
        for (len, limit) in (1..).zip(&limits) {
            let expected = drafted(&mut cpu, &*on_cpu, 6, Some(*limit), None);
            assert_eq!(expected.drafts, whole.drafts[..len], "above {limit}");
            let got = drafted(&mut gpu, &*on_gpu, 6, Some(*limit), None);
            assert_eq!(
                (&got.drafts, &got.chosen),
                (&expected.drafts, &expected.chosen),
                "{tier} {len}"
            );
            for (a, b) in got.log_confidences.iter().zip(&expected.log_confidences) {
                assert!((a - b).abs() < 2e-2, "{tier}: {a}, not {b}");
            }
        }
        let on_cpu_ids = cpu.token_map("ids", &ids).unwrap();
        let on_gpu_ids = gpu.token_map("ids", &ids).unwrap();
        let expected = drafted(&mut cpu, &*on_cpu, 6, None, Some(&on_cpu_ids));
        assert_eq!(expected.drafts.len(), 3, "{:?}", expected.drafts);
        let got = drafted(&mut gpu, &*on_gpu, 6, None, Some(&on_gpu_ids));
        assert_eq!(got, expected, "{tier} mapped");
    }
}

/// A bind group holds its buffers, also those of a model that failed and was dropped.
#[test]
fn who_carries_on_without_a_draft_keeps_none_of_its_bind_groups() {
    let path = data_file("tiny.gguf");
    let tier = Tier::parse("base").unwrap();
    let Some(mut gpu) = gpu::open(tier) else {
        return;
    };
    let model = block_on(load_file(&mut gpu, &path));
    let first = drafted(&mut gpu, &*model, 2, None, None);
    let made = gpu.counters().bind_groups_created;
    assert_eq!(drafted(&mut gpu, &*model, 2, None, None), first);
    assert_eq!(gpu.counters().bind_groups_created, made, "all were there");
    gpu.discard();
    block_on(gpu.flush()).unwrap();
    gpu.forget_failures();
    assert_eq!(drafted(&mut gpu, &*model, 2, None, None), first);
    let again = gpu.counters().bind_groups_created - made;
    assert!(again > 0 && again <= made, "{again} of {made} made again");
}

fn prompts() -> Vec<Vec<TokenId>> {
    let golden: GoldenFile = read_golden("smollm2-135m.json");
    let chats = golden.cases.iter().filter(|c| c.id.starts_with("chat"));
    chats.map(|case| case.prompt_ids.clone()).collect()
}

#[test]
fn a_step_is_one_submission_one_wait_and_creates_nothing() {
    let path = find_model(SMOLLM2, "gpu_draft_model").unwrap_or_else(|| data_file("tiny.gguf"));
    let tier = Tier::parse("subgroup").unwrap();
    let Some(mut ops) = gpu::open(tier) else {
        return;
    };
    let target = block_on(load_file(&mut ops, &path));
    let draft = block_on(load_file(&mut ops, &path));
    let mut cache = DraftCache::default();
    let options = DecodeOptions {
        draft_model: true,
        num_speculative_tokens: 4,
        statistics: StatisticsLevel::Summary,
        ..DecodeOptions::plain(StopConditions {
            token_ids: Vec::new(),
            max_tokens: 41,
            context: target.context_length() as usize,
        })
    };
    let mut sequence = Sequence::new(0);
    sequence.commit(&[11, 12, 13]);
    let mut decode = DecodeLoop::new(sequence, options, AbortSignal::new());
    let mut steps = 0;
    while decode.finish().is_none() {
        let before = ops.counters();
        let draft = Draft {
            model: &*draft,
            cache: &mut cache,
            vocabulary: None,
        };
        block_on(decode.step_with(&mut ops, &*target, Some(draft))).unwrap();
        let step = ops.counters().since(&before);
        steps += 1;
        // The prompt's pass comes first, then one that makes what all others need.
        if steps > 3 {
            assert_eq!((step.syncs, step.mapped_bytes), (1, 192), "one wait a step");
            assert_eq!(step.objects_created(), 0, "{step:?}");
            // Up to sixteen where it takes more than 100 ms.
            assert!((1..=16).contains(&step.submits), "{} submits", step.submits);
            // A row table, and what the draft continues.
            assert_eq!(step.write_buffers, 2);
            let layers = u64::from(target.config().num_hidden_layers);
            let pass = 7 * layers + 5;
            assert_eq!(
                step.dispatches,
                4 * (pass + 1) + pass,
                "four passes and one"
            );
        }
    }
    assert_eq!(steps, 1 + 8, "five tokens a step");
    let statistics = decode.statistics().unwrap();
    assert_eq!(statistics.draft_acceptance_rate(), 1.0);
}

/// An engine whose target and draft are SmolLM2.
fn engine_twice(test: &str, tier: Tier, config: &Value) -> Option<Engine<GpuOps>> {
    let path = find_model(SMOLLM2, test)?;
    let source = FileSource::open(path).unwrap();
    let ops = gpu::open(tier)?;
    let options = EngineOptions {
        check_row_invariance: true,
        speculative_config: Some(SpeculativeConfig::parse(config).unwrap()),
        per_request_spec_decode_metrics: Level::Detailed,
        ..EngineOptions::new("smollm2", "test")
    };
    let draft = DraftSource {
        name: "smollm2 again".to_owned(),
        file: Ok(&source),
    };
    let mut ignore = |_| {};
    let engine = Engine::load_with_draft(ops, &source, Some(draft), options, &mut ignore);
    let engine = block_on(engine).unwrap();
    assert!(engine.speculation().active, "{:?}", engine.speculation());
    Some(engine)
}

fn answer(engine: &Engine<GpuOps>, body: &Value) -> Value {
    let request = CompletionRequest::parse(body, &engine.limits()).unwrap();
    let mut generation = engine.complete(&request, AbortSignal::new()).unwrap();
    serde_json::to_value(block_on(generation.response()).unwrap()).unwrap()
}

fn body(prompt: &[TokenId], temperature: f64, max_tokens: usize, speculation: Value) -> Value {
    json!({
        "prompt": prompt, "temperature": temperature, "seed": 5, "max_tokens": max_tokens,
        "ignore_eos": true, "return_token_ids": true, "speculative_config": speculation,
    })
}

fn drafting_for_itself(max_tokens: usize) {
    let config = json!({"method": "draft_model", "num_speculative_tokens": 7, "adaptive": false});
    let tier = Tier::parse("subgroup-f16").unwrap();
    let Some(engine) = engine_twice("gpu_draft_model itself", tier, &config) else {
        return;
    };
    for temperature in [0.0, 0.8] {
        let prompt = &prompts()[0];
        let drafted = answer(&engine, &body(prompt, temperature, max_tokens, json!({})));
        let metrics = &drafted["metrics"]["speculative_decoding"];
        assert_eq!(metrics["draft_acceptance_rate"], 1.0, "{metrics}");
        assert_eq!(metrics["num_spec_steps"], max_tokens / 8, "{metrics}");
        let plain = answer(&engine, &body(prompt, temperature, max_tokens, Value::Null));
        assert_eq!(
            drafted["choices"][0]["token_ids"], plain["choices"][0]["token_ids"],
            "at {temperature}"
        );
    }
}

#[test]
fn a_model_that_drafts_for_itself_is_always_right() {
    drafting_for_itself(64);
}

#[test]
#[ignore = "a minute on a software driver; cargo xtask test --all"]
fn a_long_answer_of_a_model_that_drafts_for_itself() {
    drafting_for_itself(256);
}

fn every_method(
    test: &str,
    tier: Tier,
    prompts: &[Vec<TokenId>],
    methods: &[&str],
    max_tokens: usize,
) {
    let config = json!({"method": "auto", "num_speculative_tokens": 5});
    let Some(engine) = engine_twice(test, tier, &config) else {
        return;
    };
    for prompt in prompts {
        for temperature in [0.0, 0.8] {
            let ids = |speculation: Value| {
                let response = answer(&engine, &body(prompt, temperature, max_tokens, speculation));
                (
                    response["choices"][0]["token_ids"].clone(),
                    response["metrics"]["speculative_decoding"].clone(),
                )
            };
            let (plain, _) = ids(Value::Null);
            for method in methods {
                let (drafted, metrics) = ids(json!({"method": method}));
                assert_eq!(drafted, plain, "{tier} {method} at {temperature}");
                println!(
                    "{tier} {method} at {temperature}: {} accepted of {}",
                    metrics["num_accepted_draft_tokens"], metrics["num_draft_tokens"]
                );
            }
        }
    }
}

#[test]
fn every_method_answers_as_plain_decoding_does() {
    let tier = Tier::parse("subgroup-f16").unwrap();
    let methods = ["draft_model", "auto", "suffix", "ngram", "auto"];
    every_method(
        "gpu_draft_model methods",
        tier,
        &prompts()[1..2],
        &methods,
        32,
    );
}

#[test]
#[ignore = "minutes on a software driver; cargo xtask test --all"]
fn long_answers_by_the_draft_model() {
    let tier = Tier::parse("subgroup-f16").unwrap();
    let methods = ["draft_model", "auto"];
    every_method("gpu_draft_model long", tier, &prompts()[..1], &methods, 512);
}
