//! What responses and the engine tell of how answers were made: which keys are there, null or absent, and where.

use foretoken_engine::{EngineOptions, StatisticsLevel};
use foretoken_reference::CpuOps;
use serde_json::{Value, json};

use crate::rig::{
    complete, engine, engine_on, engine_with, ids, options, speculative_options, stream_chat,
    stream_completion,
};
use crate::watched_ops::WatchedOps;

const TIMING: [&str; 5] = [
    "time_to_first_token_ms",
    "generation_time_ms",
    "queue_time_ms",
    "mean_itl_ms",
    "tokens_per_second",
];

fn body(extra: Value) -> Value {
    let mut body = json!({
        "prompt": [219, 97, 123, 219, 97, 123], "temperature": 0, "frequency_penalty": -2,
        "max_tokens": 24, "ignore_eos": true, "return_token_ids": true,
        "return_token_provenance": true,
    });
    for (name, value) in extra.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

#[test]
fn each_level_has_its_keys_and_none_has_no_trace() {
    for (level, timing, speculating) in [
        (StatisticsLevel::None, false, true),
        (StatisticsLevel::None, true, true),
        (StatisticsLevel::Summary, false, true),
        (StatisticsLevel::Summary, true, false),
        (StatisticsLevel::Detailed, false, true),
        (StatisticsLevel::Detailed, true, false),
    ] {
        let engine = engine_with(EngineOptions {
            per_request_spec_decode_metrics: level,
            enable_per_request_metrics: timing,
            speculative_config: speculating.then(|| crate::rig::ngram(3)),
            ..options()
        });
        let response = complete(&engine, &body(json!({}))).unwrap();
        let metrics = response.get("metrics");
        let case = format!("{level:?}, timing {timing}, speculating {speculating}");
        let any = level != StatisticsLevel::None || timing;
        assert_eq!(metrics.is_some(), any, "{case}");
        let Some(metrics) = metrics else { continue };
        assert_eq!(
            TIMING.map(|key| metrics.get(key).is_some_and(Value::is_f64)),
            [timing; 5],
            "{case}"
        );
        let found = metrics.get("speculative_decoding");
        assert_eq!(found.is_some(), level != StatisticsLevel::None, "{case}");
        if let Some(found) = found {
            assert_eq!(found.is_object(), speculating, "{case}");
        }
        let detailed = level == StatisticsLevel::Detailed;
        assert_eq!(metrics.get("foretoken").is_some(), detailed, "{case}");
    }
}

#[test]
fn figures_equal_what_the_tokens_say_of_themselves() {
    let engine = engine_with(speculative_options(3));
    let response = complete(&engine, &body(json!({}))).unwrap();
    let provenance = response["choices"][0]["token_provenance"]
        .as_array()
        .unwrap();
    let count = |name: &str| provenance.iter().filter(|p| *p == name).count();
    let metrics = &response["metrics"];
    let found = &metrics["speculative_decoding"];
    assert_eq!(count("prefill"), 1);
    assert_eq!(
        metrics["foretoken"]["num_emitted_from_drafts"],
        count("draft")
    );
    assert_eq!(metrics["foretoken"]["plain_steps"], count("plain"));
    let ended = count("recovered") + count("bonus");
    let steps = found["num_spec_steps"].as_u64().unwrap() as usize;
    assert!(
        steps == ended || steps == ended + 1,
        "the last may end within drafts"
    );
    assert!(count("draft") > 0, "{provenance:?}");
    assert_eq!(found["num_spec_tokens"], 3);
    assert_eq!(metrics["foretoken"]["method"], "ngram");
    assert!(
        metrics["foretoken"]["dispatches"].is_null(),
        "the reference counts nothing"
    );

    // Worked case 3: on, and nothing ever drafted.
    let never = json!({"speculative_config": {"prompt_lookup_min": 60, "prompt_lookup_max": 60}});
    let never = complete(&engine, &body(never)).unwrap();
    let never = &never["metrics"]["speculative_decoding"];
    assert_eq!(never["acceptance_histogram"], json!([0, 0, 0, 0]));
    assert_eq!(never["acceptance_histogram_by_draft_length"], json!({}));
    assert_eq!(never["mean_acceptance_length"], 1.0);
    assert_eq!(never["draft_acceptance_rate"], 0.0);
    assert_eq!(
        response["choices"][0]["token_ids"]
            .as_array()
            .unwrap()
            .len(),
        24
    );
}

#[test]
fn worked_case_six_counts_verification_and_not_emission() {
    let engine = engine_with(speculative_options(3));
    // It wants 101, which ends the answer, as soon as two tokens are there; until then 100.
    let request = json!({
        "prompt": [50, 100, 100, 101, 101, 7, 8, 50], "temperature": 0, "stop_token_ids": [101],
        "logit_bias": {"100": 50, "101": 100}, "min_tokens": 2, "return_token_ids": true,
        "return_token_provenance": true, "logprobs": 0,
    });
    let response = complete(&engine, &request).unwrap();
    let choice = &response["choices"][0];
    assert_eq!(choice["token_ids"], json!([100, 100, 101]));
    assert_eq!(
        choice["token_provenance"],
        json!(["prefill", "draft", "draft"])
    );
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(choice["text"], engine.tokenizer().decode(&[100, 100]));
    assert_eq!(choice["logprobs"]["tokens"].as_array().unwrap().len(), 3);
    assert_eq!(response["usage"]["completion_tokens"], 3);
    let found = &response["metrics"]["speculative_decoding"];
    assert_eq!(found["acceptance_histogram"], json!([0, 0, 0, 1]));
    assert_eq!(found["per_step_accepted"], json!([3]));
    assert_eq!(
        response["metrics"]["foretoken"]["num_emitted_from_drafts"],
        2
    );
    // Nothing of it shows in the next request.
    let again = complete(&engine, &request).unwrap();
    assert_eq!(again["choices"], response["choices"]);
}

#[test]
fn several_choices_have_null_and_move_the_counters() {
    let engine = engine_with(speculative_options(3));
    let before = engine.metrics();
    let response = complete(&engine, &body(json!({"n": 2}))).unwrap();
    let metrics = &response["metrics"];
    assert!(metrics["speculative_decoding"].is_null());
    for key in TIMING {
        assert!(
            metrics[key].is_null() && metrics.get(key).is_some(),
            "{key}"
        );
    }
    assert!(
        metrics["foretoken"]["num_emitted_from_drafts"]
            .as_u64()
            .unwrap()
            > 0
    );
    let after = engine.metrics();
    assert!(after.spec_decode_num_draft_tokens_total > before.spec_decode_num_draft_tokens_total);
    assert_eq!(after.generation_tokens_total, 48);
    assert_eq!(after.requests.length, 1);
}

#[test]
fn counters_are_the_sums_of_the_requests() {
    for level in [StatisticsLevel::Detailed, StatisticsLevel::None] {
        let engine = engine_with(EngineOptions {
            per_request_spec_decode_metrics: level,
            ..speculative_options(4)
        });
        let (mut steps, mut drafted, mut accepted) = (0, 0, 0);
        let mut per_position = [0; 4];
        for seed in 0..6 {
            let extra = json!({"temperature": 0.7, "seed": seed});
            let response = complete(&engine, &body(extra)).unwrap();
            let found = &response["metrics"]["speculative_decoding"];
            if level == StatisticsLevel::None {
                assert!(response["metrics"].get("speculative_decoding").is_none());
                continue;
            }
            let count = |name: &str| found[name].as_u64().unwrap();
            steps += count("num_spec_steps");
            drafted += count("num_draft_tokens");
            accepted += count("num_accepted_draft_tokens");
            for (position, sum) in per_position.iter_mut().enumerate() {
                let histogram = ids(&found["acceptance_histogram"]);
                *sum += histogram[position + 1..].iter().sum::<u64>();
            }
        }
        let totals = engine.metrics();
        if level == StatisticsLevel::None {
            assert!(
                totals.spec_decode_num_drafts_total > 0,
                "counted at any level"
            );
            continue;
        }
        assert_eq!(totals.spec_decode_num_drafts_total, steps);
        assert_eq!(totals.spec_decode_num_draft_tokens_total, drafted);
        assert_eq!(totals.spec_decode_num_accepted_tokens_total, accepted);
        assert_eq!(
            totals.spec_decode_num_accepted_tokens_per_pos_total,
            per_position
        );
        let text = totals.prometheus(engine.model_name());
        let line = format!("vllm:spec_decode_num_drafts_total{{model_name=\"tiny\"}} {steps}");
        assert!(text.lines().any(|found| found == line), "{text}");
    }
}

#[test]
fn a_stream_has_its_metrics_on_the_usage_chunk_only() {
    for force in [false, true] {
        let engine = engine_with(EngineOptions {
            enable_force_include_usage: force,
            ..speculative_options(3)
        });
        for asked in [false, true] {
            let mut request = body(json!({"stream": true}));
            if asked {
                request["stream_options"] = json!({"include_usage": true});
            }
            let chunks = stream_completion(&engine, &request);
            let last = chunks.last().unwrap();
            assert_eq!(last.get("usage").is_some(), asked || force);
            assert_eq!(last.get("metrics").is_some(), asked || force);
            if asked || force {
                let whole = complete(&engine, &body(json!({}))).unwrap();
                assert_eq!(
                    last["metrics"]["speculative_decoding"],
                    whole["metrics"]["speculative_decoding"]
                );
                assert_eq!(last["usage"], whole["usage"]);
            }
        }
        let messages =
            json!([{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]);
        let request = json!({"messages": messages, "stream": true, "n": 2, "max_tokens": 5, "logprobs": true});
        stream_chat(&engine, &request);
    }
}

#[test]
fn speculation_that_cannot_run_says_so() {
    let engine = engine_on(WatchedOps::careless(), speculative_options(3));
    let status = engine.speculation();
    assert!(!status.active && status.method.is_some());
    assert!(
        status.reason.as_deref().is_some_and(|r| r.contains("row")),
        "{status:?}"
    );
    let response = complete(&engine, &body(json!({}))).unwrap();
    assert!(response["metrics"]["speculative_decoding"].is_null());
    let ours = &response["metrics"]["foretoken"];
    assert_eq!(
        (&ours["active"], &ours["method"]),
        (&json!(false), &json!("ngram"))
    );
    assert_eq!(ours["reason"], json!(status.reason));
    let provenance = response["choices"][0]["token_provenance"]
        .as_array()
        .unwrap();
    assert!(
        provenance[1..].iter().all(|from| from == "plain"),
        "it decodes plainly"
    );
    let plain = complete(&self::engine(), &body(json!({}))).unwrap();
    assert_eq!(
        response["choices"][0]["token_ids"],
        plain["choices"][0]["token_ids"]
    );
    // One that was not asked for has no reason.
    let status = engine_on(CpuOps::with_threads(1), options()).speculation();
    assert_eq!(
        serde_json::to_value(status).unwrap(),
        json!({"active": false, "method": null, "reason": null})
    );
    let status = engine_with(speculative_options(2)).speculation();
    assert_eq!(
        serde_json::to_value(status).unwrap(),
        json!({"active": true, "method": "ngram", "reason": null})
    );
}
