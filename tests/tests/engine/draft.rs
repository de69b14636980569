//! Draft models: loaded beside the target, or left out with the reason said.

use std::rc::Rc;

use foretoken_core::{Ops, OpsError, Phase};
use foretoken_engine::{
    DraftSource, Engine, EngineOptions, Error, LoadPhase, LoadProgress, PrefixReuse,
    SpeculativeConfig, plan,
};
use foretoken_reference::CpuOps;
use foretoken_tests::golden::data_file;
use foretoken_tests::model_file::{SMOLLM2, find_model};
use foretoken_weights::{BytesSource, FileSource, Gguf};
use pollster::block_on;
use serde_json::{Value, json};

use crate::loading::replaced;
use crate::rig::{complete, engine, ngram, options, refused, speculative_options};
use crate::watched_ops::WatchedOps;

fn drafting(k: u32) -> EngineOptions {
    let config = json!({"method": "draft_model", "num_speculative_tokens": k});
    EngineOptions {
        speculative_config: Some(SpeculativeConfig::parse(&config).unwrap()),
        ..speculative_options(k)
    }
}

fn tiny() -> Vec<u8> {
    std::fs::read(data_file("tiny.gguf")).unwrap()
}

fn load_on<O: Ops + 'static>(
    ops: O,
    target: &str,
    draft: Vec<u8>,
    options: EngineOptions,
) -> (Result<Engine<O>, Error>, Vec<LoadProgress>) {
    let target = BytesSource(std::fs::read(data_file(target)).unwrap());
    let draft = BytesSource(draft);
    let draft = DraftSource {
        name: "small".to_owned(),
        file: Ok(&draft),
    };
    let mut seen = Vec::new();
    let mut progress = |state| seen.push(state);
    let engine = Engine::load_with_draft(ops, &target, Some(draft), options, &mut progress);
    (block_on(engine), seen)
}

fn load(draft: Vec<u8>) -> Engine<CpuOps> {
    load_on(CpuOps::with_threads(1), "tiny.gguf", draft, drafting(3))
        .0
        .unwrap()
}

fn request() -> Value {
    json!({"prompt": [50, 60, 70, 50, 60], "max_tokens": 12, "temperature": 0, "return_token_ids": true})
}

fn tokens(response: &Value) -> Value {
    response["choices"][0]["token_ids"].clone()
}

#[test]
fn a_draft_is_loaded_beside_the_target_under_one_progress() {
    let (engine, seen) = load_on(
        CpuOps::with_threads(1),
        "tiny_qwen2.gguf",
        tiny(),
        drafting(3),
    );
    let engine = engine.unwrap();
    let draft = engine.draft().expect("it is in use");
    assert_eq!(draft.name, "small");
    assert_eq!(engine.limits().context, 768);
    assert_eq!(draft.context_length, 64, "as far as it was trained for");
    assert_eq!(draft.mapped_share, None, "the target's vocabulary");
    assert!(draft.token_ms > 0.0, "{draft:?}");
    assert_eq!(engine.draft_failure(), None);
    let status = serde_json::to_value(engine.speculation()).unwrap();
    let expected =
        json!({"active": true, "method": "draft_model", "reason": null, "draft": "small"});
    assert_eq!(status, expected);

    let uploads: Vec<_> = seen
        .iter()
        .filter(|p| p.phase == LoadPhase::Upload)
        .collect();
    let total = uploads[0].total;
    let of = |name: &str| {
        let source = FileSource::open(data_file(name)).unwrap();
        let report = block_on(foretoken_engine::inspect(&source, None)).unwrap();
        report.weight_bytes
    };
    assert_eq!(total, of("tiny_qwen2.gguf") + of("tiny.gguf"));
    assert!(uploads[1..].iter().all(|p| p.total == total), "{uploads:?}");
    let rises = |pair: &[&LoadProgress]| pair[0].loaded <= pair[1].loaded;
    assert!(uploads.windows(2).all(rises), "{uploads:?}");
    assert_eq!(uploads.last().unwrap().loaded, total);
}

/// A draft that is wrong in some way leaves the engine as it is without one.
fn is_left_out(draft: Vec<u8>, said: &[&str], is_corrupt: bool) {
    let engine = load(draft);
    assert_eq!(engine.draft(), None, "{said:?}");
    let failure = engine.draft_failure().expect("it was left out");
    assert_eq!(failure.is_corrupt, is_corrupt, "{failure}");
    let status = engine.speculation();
    let reason = status.reason.clone().unwrap_or_default();
    assert!(!status.active && !reason.contains('\n'), "{status:?}");
    assert_eq!(status.draft.as_deref(), Some("small"));
    for word in said.iter().chain(&["small"]) {
        assert!(reason.contains(word), "{word:?} in {reason:?}");
    }
    let response = complete(&engine, &request()).unwrap();
    let plain = complete(&self::engine(), &request()).unwrap();
    assert_eq!(tokens(&response), tokens(&plain), "{said:?}");
    let ours = &response["metrics"]["foretoken"];
    assert_eq!(ours["active"], false, "{said:?}");
    assert_eq!(ours["reason"], json!(reason), "{said:?}");
    assert!(response["metrics"]["speculative_decoding"].is_null());

    // Another method drafts as ever: token 100 over and over is soon looked up.
    let mut other = request();
    other["logit_bias"] = json!({"100": 100});
    let plain = complete(&self::engine(), &other).unwrap();
    other["speculative_config"] = json!({"method": "ngram", "prompt_lookup_min": 1});
    let response = complete(&engine, &other).unwrap();
    assert_eq!(tokens(&response), tokens(&plain), "{said:?}");
    assert_eq!(response["metrics"]["foretoken"]["active"], true);
    let drafts = &response["metrics"]["speculative_decoding"]["num_draft_tokens"];
    assert!(drafts.as_u64().unwrap() > 0, "{response}");
}

#[test]
fn a_draft_that_cannot_be_loaded_is_left_out_and_named() {
    let tiny = tiny();
    is_left_out(b"no model".to_vec(), &["GGUF"], true);
    is_left_out(tiny[..tiny.len() / 2].to_vec(), &["(memory)"], true);
    is_left_out(
        replaced(&tiny, b"blk.1.ffn_up", b"blk.1.ffn_ux"),
        &["blk.1.ffn_up"],
        true,
    );
    is_left_out(
        replaced(&tiny, b"smollm", b"smollx"),
        &["smollx", "pre-tokenizer"],
        false,
    );
    // A norm that makes every logit a NaN: it would never propose anything.
    let gguf = block_on(Gguf::read(&BytesSource(tiny.clone()))).unwrap();
    let norm = gguf.tensor("output_norm.weight").unwrap();
    let at = usize::try_from(norm.offset).unwrap();
    let mut no_numbers = tiny.clone();
    no_numbers[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    is_left_out(no_numbers, &["NaN"], false);
    // The same length, and no architecture of ours.
    is_left_out(replaced(&tiny, b"llama", b"lhama"), &["lhama"], false);
}

/// Answers of an engine with this draft, greedy and sampled, and by each method: those of plain decoding. Returns the drafts that
/// were verified and accepted by the draft model.
fn changes_nothing(target: &str, draft: Vec<u8>) -> (u64, u64) {
    let load = |draft: Vec<u8>| {
        let ops = CpuOps::with_threads(1);
        load_on(ops, target, draft, drafting(4)).0.unwrap()
    };
    let engine = load(draft);
    let mut counted = (0, 0);
    for temperature in [0.0, 0.8] {
        let mut request = request();
        request["temperature"] = temperature.into();
        request["seed"] = 7.into();
        request["max_tokens"] = 40.into();
        request["ignore_eos"] = true.into();
        request["speculative_config"] = Value::Null;
        let plain = complete(&engine, &request).unwrap();
        assert!(plain["metrics"]["speculative_decoding"].is_null());
        for method in ["draft_model", "auto", "suffix", "ngram", "draft_model"] {
            let adaptive = method == "auto";
            request["speculative_config"] = json!({"method": method, "adaptive": adaptive});
            let response = complete(&engine, &request).unwrap();
            assert_eq!(
                tokens(&response),
                tokens(&plain),
                "{method} at {temperature}"
            );
            let metrics = &response["metrics"]["speculative_decoding"];
            let ours = &response["metrics"]["foretoken"];
            assert_eq!(ours["method"], method);
            if method == "draft_model" {
                let count = |name: &str| metrics[name].as_u64().unwrap();
                counted.0 += count("num_draft_tokens");
                counted.1 += count("num_accepted_draft_tokens");
                assert!(ours["draft_time_ms"].is_null() && ours["verify_time_ms"].is_null());
                assert!(ours["sync_time_ms"].is_f64(), "{ours}");
            }
        }
    }
    counted
}

#[test]
fn a_draft_that_is_the_target_is_always_right() {
    let (drafted, accepted) = changes_nothing("tiny.gguf", tiny());
    assert_eq!(drafted, accepted);
    // 39 tokens in steps of 5, four times.
    assert!(drafted >= 4 * 28, "{drafted}");
}

#[test]
fn without_prefix_reuse_the_draft_model_too_reads_each_prompt() {
    // Prefill passes of the same request, three times: the target's, and the draft model's.
    let prefills = |prefix_reuse: PrefixReuse| {
        let ops = WatchedOps::new();
        let passes = Rc::clone(&ops.passes);
        let options = EngineOptions {
            prefix_reuse,
            ..drafting(3)
        };
        let engine = load_on(ops, "tiny.gguf", tiny(), options).0.unwrap();
        let request = json!({
            "prompt": (40..60).collect::<Vec<_>>(), "max_tokens": 6, "temperature": 0, "ignore_eos": true,
            "speculative_config": {"adaptive": false},
        });
        [(); 3].map(|()| {
            passes.borrow_mut().clear();
            complete(&engine, &request).unwrap();
            let passes = passes.borrow();
            let prefills = passes.iter().filter(|pass| pass.0 == Phase::Prefill);
            prefills.count()
        })
    };
    let of_both = prefills(PrefixReuse::Off);
    assert_eq!(of_both, [of_both[0]; 3]);
    // It keeps the prompt otherwise, of which the target reads the last part again.
    let [first, again, _] = prefills(PrefixReuse::Exact);
    assert!(again < first && first == of_both[0], "{again}, {first}");
}

#[test]
fn another_model_changes_nothing() {
    let (drafted, _) = changes_nothing("tiny_qwen2.gguf", tiny());
    assert!(drafted >= 100, "{drafted}");
}

#[test]
fn a_vocabulary_that_differs_is_mapped() {
    let tiny = tiny();
    let renamed = replaced(&tiny, b"<|im_start|>", b"<|im_stark|>");
    let (drafted, accepted) = changes_nothing("tiny.gguf", renamed.clone());
    // Greedily it is the target; where it is drawn, the draft model's likeliest token is not always the one.
    assert!(
        accepted > 50 && accepted < drafted,
        "{accepted} of {drafted}"
    );
    let draft = load(renamed).draft().unwrap();
    assert_eq!(draft.mapped_share, Some(1.0));
}

#[test]
fn a_tokenizer_that_cuts_texts_elsewhere_is_no_draft() {
    let Some(path) = find_model(SMOLLM2, "engine another tokenizer") else {
        return;
    };
    let smollm2 = FileSource::open(path).unwrap();
    let target = FileSource::open(data_file("tiny.gguf")).unwrap();
    let draft = DraftSource {
        name: "smollm2".to_owned(),
        file: Ok(&smollm2),
    };
    let ops = CpuOps::with_threads(1);
    let mut ignore = |_| {};
    let engine = Engine::load_with_draft(ops, &target, Some(draft), drafting(3), &mut ignore);
    let reason = block_on(engine).unwrap().speculation().reason.unwrap();
    assert!(reason.contains("% of a sample text in tokens"), "{reason}");
}

#[test]
fn what_a_front_end_found_is_the_reason() {
    let target = BytesSource(tiny());
    let draft = DraftSource {
        name: "small".to_owned(),
        file: Err("it could not be had".to_owned()),
    };
    let ops = CpuOps::with_threads(1);
    let mut ignore = |_| {};
    let engine = Engine::load_with_draft(ops, &target, Some(draft), drafting(3), &mut ignore);
    let reason = block_on(engine).unwrap().speculation().reason;
    let expected = "the draft model small cannot be used: it could not be had";
    assert_eq!(reason.as_deref(), Some(expected));
}

#[test]
fn a_draft_without_memory_is_left_out_and_a_lost_device_is_lost() {
    let full = OpsError::OutOfMemory {
        what: "keys".to_owned(),
        needed: 7,
        available: "6 are left".to_owned(),
    };
    // TINY has two layers: the second draft layer's cache is the fourth.
    let ops = WatchedOps::refusing(3, full.clone());
    let (engine, seen) = load_on(ops, "tiny.gguf", tiny(), drafting(3));
    let engine = engine.unwrap();
    let reason = engine.speculation().reason.unwrap();
    assert!(
        reason.contains("small") && reason.contains("7 bytes needed"),
        "{reason}"
    );
    let mut uploads = seen.iter().filter(|p| p.phase == LoadPhase::Upload);
    let last = uploads.next_back().unwrap();
    assert_eq!(last.loaded, last.total, "the bar is full in any case");
    let response = complete(&engine, &request()).unwrap();
    let plain = complete(&self::engine(), &request()).unwrap();
    assert_eq!(tokens(&response), tokens(&plain));

    let (engine, _) = load_on(
        WatchedOps::refusing(1, full),
        "tiny.gguf",
        tiny(),
        drafting(3),
    );
    assert_eq!(engine.unwrap_err().code(), "out_of_memory", "the target's");
    let lost = OpsError::DeviceLost {
        reason: "unplugged".to_owned(),
    };
    let (engine, _) = load_on(
        WatchedOps::refusing(3, lost),
        "tiny.gguf",
        tiny(),
        drafting(3),
    );
    assert_eq!(engine.unwrap_err().code(), "device_lost");
}

#[test]
fn a_draft_and_what_is_to_be_done_with_it_belong_together() {
    let load = |with_draft: bool, options: EngineOptions| {
        let source = BytesSource(tiny());
        let draft = with_draft.then(|| DraftSource {
            name: "small".to_owned(),
            file: Ok(&source),
        });
        let mut ops = CpuOps::with_threads(1);
        let planned = plan(&mut ops, &source, draft.as_ref(), &options);
        let planned = block_on(planned).map(drop).map_err(|e| e.to_string());
        let mut ignore = |_| {};
        let loaded = Engine::load_with_draft(ops, &source, draft, options, &mut ignore);
        let loaded = block_on(loaded);
        let words = loaded.as_ref().map(drop).map_err(Error::to_string);
        assert_eq!(planned, words, "a plan fails as a load does");
        loaded
    };
    let error = load(true, options()).unwrap_err();
    assert_eq!(
        (error.code(), error.param()),
        ("invalid_request", Some("speculative_config"))
    );
    let error = load(false, drafting(2)).unwrap_err();
    assert_eq!(error.code(), "invalid_request");
    assert_eq!(error.param(), Some("speculative_config.method"));
    for word in ["draftModel", "--draft-model", "speculative_config.model"] {
        assert!(error.to_string().contains(word), "{error}");
    }

    // A draft may wait for the requests that name it.
    let with_ngram = || EngineOptions {
        speculative_config: Some(ngram(2)),
        ..speculative_options(2)
    };
    let by_draft =
        json!({"prompt": [50], "max_tokens": 3, "speculative_config": {"method": "draft_model"}});
    let response = complete(&load(true, with_ngram()).unwrap(), &by_draft).unwrap();
    assert_eq!(response["metrics"]["foretoken"]["method"], "draft_model");
    let (code, param, message) = refused(complete(&load(false, with_ngram()).unwrap(), &by_draft));
    assert_eq!(
        (&*code, &*param),
        ("invalid_request", "speculative_config.method")
    );
    assert!(message.contains("without a draft model"), "{message}");
}

#[test]
fn the_configuration_may_name_the_draft() {
    let config = |method: &str, model: Value| {
        let body = json!({"method": method, "num_speculative_tokens": 2, "model": model});
        SpeculativeConfig::parse_with_model(&body).map(|(_, model)| model)
    };
    let named = config("draft_model", json!("a.gguf")).unwrap();
    assert_eq!(named.as_deref(), Some("a.gguf"));
    assert_eq!(config("draft_model", Value::Null).unwrap(), None);
    for (method, model) in [("ngram", json!("a.gguf")), ("draft_model", json!(7))] {
        let error = config(method, model).unwrap_err();
        assert_eq!(error.param(), Some("speculative_config.model"), "{error}");
    }
    let mut body = request();
    body["speculative_config"] = json!({"model": "a.gguf"});
    let (code, param, _) = refused(complete(&load(tiny()), &body));
    assert_eq!(
        (&*code, &*param),
        ("invalid_request", "speculative_config.model")
    );
}
