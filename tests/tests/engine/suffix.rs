//! Suffix decoding: answers of one engine help later ones, and change no token of them.

use foretoken_engine::{AbortSignal, CompletionRequest, EngineOptions, SpeculativeConfig};
use pollster::block_on;
use serde_json::{Value, json};

use crate::rig::{Random, complete, engine, engine_with, refused, speculative_options};

fn suffix_options(k: u32, more: &Value) -> EngineOptions {
    let mut config = json!({"method": "suffix", "num_speculative_tokens": k, "adaptive": false});
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    EngineOptions {
        speculative_config: Some(SpeculativeConfig::parse(&config).unwrap()),
        ..speculative_options(k)
    }
}

#[test]
fn an_answer_given_before_is_drafted_from_the_first_step_on() {
    let engine = engine_with(suffix_options(7, &json!({})));
    let body = json!({
        "prompt": [44, 55, 66], "temperature": 0, "max_tokens": 24, "ignore_eos": true, "return_token_ids": true,
    });
    let run = |body: &Value| {
        let response = complete(&engine, body).unwrap();
        let metrics = &response["metrics"];
        assert_eq!(metrics["foretoken"]["method"], "suffix");
        let accepted = &metrics["speculative_decoding"]["num_accepted_draft_tokens"];
        (response["choices"].clone(), accepted.as_u64().unwrap())
    };
    let (first, alone) = run(&body);
    let (second, warm) = run(&body);
    assert_eq!(second, first);
    assert!(warm > alone && warm > 12, "{warm} after {alone}");
    // Neither looking at earlier answers, nor kept for later ones.
    let mut without = body.clone();
    without["speculative_config"] = json!({"suffix_decoding_max_cached_requests": 0});
    assert_eq!(run(&without), (first, alone));
}

#[test]
fn no_answer_changes_while_answers_come_end_and_are_given_up() {
    let plain = engine();
    let (mut drafted, mut accepted) = (0, 0);
    for (k, more) in [
        (1, json!({})),
        (
            4,
            json!({"suffix_decoding_max_cached_requests": 3, "suffix_decoding_min_token_prob": 0}),
        ),
        (
            15,
            json!({"suffix_decoding_max_spec_factor": 8, "suffix_decoding_max_tree_depth": 40}),
        ),
    ] {
        let engine = engine_with(suffix_options(k, &more));
        let mut random = Random(u64::from(k));
        let prompts: Vec<Vec<u32>> = (0..4).map(|i| random.tokens(1 + 5 * i)).collect();
        for round in 0..60 {
            let mut body = [
                json!({"temperature": 0}),
                json!({"temperature": 0, "frequency_penalty": -2}),
                json!({"temperature": 0.8, "top_k": 20, "frequency_penalty": -1}),
                json!({"temperature": 1.5, "top_k": 5, "logprobs": 2}),
                json!({"temperature": 1, "n": 3}),
            ][random.below(5)]
            .clone();
            body["prompt"] = json!(prompts[random.below(4)]);
            body["seed"] = json!(random.below(3));
            body["max_tokens"] = json!(1 + random.below(30));
            body["ignore_eos"] = json!(true);
            body["return_token_ids"] = json!(true);
            match random.below(4) {
                0 => body["stop"] = json!(["e", "th"][random.below(2)]),
                1 => body["speculative_config"] = json!({"adaptive": true}),
                2 => {
                    // Given up after some steps, by an abort or by being dropped.
                    let request = CompletionRequest::parse(&body, &engine.limits()).unwrap();
                    let abort = AbortSignal::new();
                    let mut generation = engine.complete(&request, abort.clone()).unwrap();
                    for _ in 0..random.below(4) {
                        block_on(generation.next_piece()).unwrap();
                    }
                    if random.below(2) == 0 {
                        abort.abort();
                        let _ = block_on(generation.next_piece());
                    }
                }
                _ => {}
            }
            let found = complete(&engine, &body).unwrap();
            let mut undrafted = body.clone();
            undrafted
                .as_object_mut()
                .unwrap()
                .remove("speculative_config");
            let expected = complete(&plain, &undrafted).unwrap();
            assert_eq!(
                found["choices"], expected["choices"],
                "k {k}, round {round}: {body}"
            );
            let metrics = &found["metrics"]["speculative_decoding"];
            drafted += metrics["num_draft_tokens"].as_u64().unwrap_or(0);
            accepted += metrics["num_accepted_draft_tokens"].as_u64().unwrap_or(0);
        }
    }
    println!("{accepted} of {drafted} drafts accepted");
    assert!(
        drafted > 500 && accepted > 200 && accepted < drafted,
        "{accepted} of {drafted}"
    );
}

#[test]
fn keys_are_refused_by_name_and_by_method() {
    let valid = json!({"method": "suffix", "num_speculative_tokens": 5});
    let config = SpeculativeConfig::parse(&valid).unwrap().suffix;
    assert_eq!(
        (config.max_tree_depth, config.max_cached_requests),
        (24, 10_000)
    );
    assert_eq!((config.max_spec_factor, config.min_token_prob), (1.0, 0.1));
    for (key, value, ok) in [
        ("suffix_decoding_max_tree_depth", json!(0), false),
        ("suffix_decoding_max_tree_depth", json!(1), true),
        ("suffix_decoding_max_tree_depth", json!(256), true),
        ("suffix_decoding_max_tree_depth", json!(257), false),
        ("suffix_decoding_max_tree_depth", json!(2.5), false),
        ("suffix_decoding_max_cached_requests", json!(-1), false),
        ("suffix_decoding_max_cached_requests", json!(0), true),
        (
            "suffix_decoding_max_cached_requests",
            json!(2_147_483_647),
            true,
        ),
        (
            "suffix_decoding_max_cached_requests",
            json!(2_147_483_648_u64),
            false,
        ),
        ("suffix_decoding_max_spec_factor", json!(-0.1), false),
        ("suffix_decoding_max_spec_factor", json!(0), true),
        ("suffix_decoding_max_spec_factor", json!(1000), true),
        ("suffix_decoding_max_spec_factor", json!(1e300), false),
        ("suffix_decoding_min_token_prob", json!(-0.1), false),
        ("suffix_decoding_min_token_prob", json!(1), true),
        ("suffix_decoding_min_token_prob", json!(1.1), false),
        ("suffix_decoding_min_token_prob", json!("0.1"), false),
        ("prompt_lookup_min", json!(2), false),
        ("prompt_lookup_max", json!(2), false),
        ("prompt_lookup_match", json!("latest"), false),
        ("adaptive", json!(false), true),
    ] {
        let mut body = valid.clone();
        body[key] = value.clone();
        let parsed = SpeculativeConfig::parse(&body);
        assert_eq!(parsed.is_ok(), ok, "{key} = {value}");
        if let Err(error) = parsed {
            assert_eq!(
                error.param(),
                Some(&*format!("speculative_config.{key}")),
                "{error}"
            );
        }
    }
    let settings = json!({
        "suffix_decoding_max_tree_depth": 12, "suffix_decoding_max_cached_requests": 7,
        "suffix_decoding_max_spec_factor": 2.5, "suffix_decoding_min_token_prob": 0.25,
    });
    let config = suffix_options(4, &settings)
        .speculative_config
        .unwrap()
        .suffix;
    assert_eq!((config.max_tree_depth, config.max_cached_requests), (12, 7));
    assert_eq!((config.max_spec_factor, config.min_token_prob), (2.5, 0.25));

    // A request's own: no deeper than the engine counts, and with its earlier answers or without.
    let engine = engine_with(suffix_options(4, &settings));
    for (config, param) in [
        (
            json!({"suffix_decoding_max_tree_depth": 12, "suffix_decoding_max_spec_factor": 1}),
            "",
        ),
        (
            json!({"suffix_decoding_max_tree_depth": 13}),
            "suffix_decoding_max_tree_depth",
        ),
        (json!({"suffix_decoding_max_cached_requests": 0}), ""),
        (json!({"suffix_decoding_max_cached_requests": 7}), ""),
        (
            json!({"suffix_decoding_max_cached_requests": 6}),
            "suffix_decoding_max_cached_requests",
        ),
        (json!({"method": "ngram", "prompt_lookup_min": 2}), ""),
        (json!({"prompt_lookup_min": 2}), "prompt_lookup_min"),
        (
            json!({"method": "ngram", "suffix_decoding_min_token_prob": 0.5}),
            "suffix_decoding_min_token_prob",
        ),
    ] {
        let body = json!({"prompt": [20, 30], "max_tokens": 4, "speculative_config": config});
        let response = complete(&engine, &body);
        if param.is_empty() {
            assert!(response.is_ok(), "{config}: {response:?}");
        } else {
            assert_eq!(
                refused(response).1,
                format!("speculative_config.{param}"),
                "{config}"
            );
        }
    }
}
