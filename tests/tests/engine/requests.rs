//! Validation: every refusal names its field, at the limits and beyond.

use foretoken_engine::{CompletionRequest, RequestLimits, SpeculativeConfig};
use serde_json::{Value, json};

use crate::rig::{chat, complete, engine, engine_with, refused, speculative_options};

#[test]
fn max_tokens_in_both_spellings() {
    let engine = engine();
    for field in ["max_tokens", "max_completion_tokens"] {
        for (value, ok) in [(0, false), (1, true), (64, true), (65, false)] {
            let mut body = json!({
                "messages": [{"role": "user", "content": "x"}], "temperature": 0, "ignore_eos": true,
            });
            body[field] = json!(value);
            let response = chat(&engine, &body);
            if ok {
                let room = 64
                    - response.as_ref().unwrap()["usage"]["prompt_tokens"]
                        .as_u64()
                        .unwrap();
                let made = response.unwrap()["usage"]["completion_tokens"]
                    .as_u64()
                    .unwrap();
                assert_eq!(made, room.min(value));
            } else {
                let (code, param, message) = refused(response);
                assert_eq!((&*code, &*param), ("invalid_request", field));
                assert!(
                    message.contains(&value.to_string()) && message.contains("1..=64"),
                    "{message}"
                );
            }
        }
    }
    let both = json!({
        "messages": [{"role": "user", "content": "x"}], "temperature": 0,
        "max_tokens": 3, "max_completion_tokens": 4,
    });
    assert_eq!(refused(chat(&engine, &both)).1, "max_tokens");
}

#[test]
fn a_prompt_beyond_the_context_is_refused_with_both_numbers() {
    let engine = engine();
    for len in [62, 63, 64, 65] {
        let body = json!({"prompt": vec![5; len], "temperature": 0, "ignore_eos": true});
        let response = complete(&engine, &body);
        if len < 64 {
            let response = response.unwrap();
            assert_eq!(response["usage"]["total_tokens"], 64);
            assert_eq!(response["choices"][0]["finish_reason"], "length");
        } else {
            let (code, param, message) = refused(response);
            assert_eq!((&*code, &*param), ("context_length_exceeded", "prompt"));
            assert!(
                message.contains(&len.to_string()) && message.contains("64"),
                "{message}"
            );
        }
    }
    let long =
        json!({"messages": [{"role": "user", "content": "ship ".repeat(40)}], "temperature": 0});
    let (code, param, _) = refused(chat(&engine, &long));
    assert_eq!((&*code, &*param), ("context_length_exceeded", "messages"));
}

/// A field with a value at a limit, or one beyond it.
type Case = (&'static str, Value, bool);

#[test]
fn every_limit_one_below_at_it_and_one_beyond() {
    let engine = engine();
    let bias = |entries: usize| -> Value {
        // The vocabulary has 512 tokens; 1,024 entries need a larger one, and are met by `parse` below.
        (0..entries)
            .map(|id| (id.to_string(), json!(0)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let cases: Vec<Case> = vec![
        ("temperature", json!(-0.001), false),
        ("temperature", json!(0), true),
        ("temperature", json!(1e-30), true),
        ("temperature", json!(2), true),
        ("temperature", json!(2.001), false),
        ("top_p", json!(0), false),
        ("top_p", json!(1e-30), true),
        ("top_p", json!(1), true),
        ("top_p", json!(1.001), false),
        ("min_p", json!(-0.001), false),
        ("min_p", json!(0), true),
        ("min_p", json!(1), true),
        ("min_p", json!(1.001), false),
        ("top_k", json!(-2), false),
        ("top_k", json!(-1), true),
        ("top_k", json!(0), true),
        ("top_k", json!(512), true),
        ("top_k", json!(513), false),
        ("presence_penalty", json!(-2.001), false),
        ("presence_penalty", json!(-2), true),
        ("presence_penalty", json!(2), true),
        ("presence_penalty", json!(2.001), false),
        ("frequency_penalty", json!(-2.001), false),
        ("frequency_penalty", json!(-2), true),
        ("frequency_penalty", json!(2), true),
        ("frequency_penalty", json!(2.001), false),
        ("repetition_penalty", json!(0), false),
        ("repetition_penalty", json!(1e-300), true),
        ("repetition_penalty", json!(10), true),
        ("repetition_penalty", json!(10.001), false),
        ("logit_bias", bias(512), true),
        ("logit_bias", bias(513), false),
        ("logit_bias", json!({"0": -100}), true),
        ("logit_bias", json!({"0": -100.5}), false),
        ("logit_bias", json!({"511": 100}), true),
        ("logit_bias", json!({"511": 100.5}), false),
        ("seed", json!(i64::MIN), true),
        ("seed", json!(u64::MAX), true),
        ("n", json!(0), false),
        ("n", json!(1), true),
        ("n", json!(8), true),
        ("n", json!(9), false),
        ("stop", json!(["a", "b", "c", "d"]), true),
        ("stop", json!(["a", "b", "c", "d", "e"]), false),
        ("stop", json!("é".repeat(256)), true),
        ("stop", json!("é".repeat(257)), false),
        ("stop", json!(""), false),
        ("stop_token_ids", json!(vec![511; 64]), true),
        ("stop_token_ids", json!(vec![511; 65]), false),
        ("stop_token_ids", json!([512]), false),
        ("min_tokens", json!(-1), false),
        ("min_tokens", json!(0), true),
        ("min_tokens", json!(2), true),
        ("min_tokens", json!(3), false),
        ("logprobs", json!(-1), false),
        ("logprobs", json!(0), true),
        ("logprobs", json!(20), true),
        ("logprobs", json!(21), false),
    ];
    for (field, value, ok) in cases {
        let mut body = json!({"prompt": [20, 30, 40], "max_tokens": 2});
        body[field] = value.clone();
        let response = complete(&engine, &body);
        if ok {
            response.unwrap_or_else(|error| panic!("{field} = {value}: {error}"));
        } else {
            let (code, param, message) = refused(response);
            assert_eq!(
                (&*code, &*param),
                ("invalid_request", field),
                "{value}: {message}"
            );
        }
    }
    for (top, ok) in [(0, true), (20, true), (21, false)] {
        let body = json!({
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "x"}],
            "max_tokens": 1, "logprobs": true, "top_logprobs": top,
        });
        let response = chat(&engine, &body);
        match ok {
            true => drop(response.unwrap()),
            false => assert_eq!(refused(response).1, "top_logprobs"),
        }
    }
    let large = RequestLimits {
        vocab: 100_000,
        ..engine.limits()
    };
    for (entries, ok) in [(1023, true), (1024, true), (1025, false)] {
        let body = json!({"prompt": "x", "logit_bias": bias(entries)});
        let parsed = CompletionRequest::parse(&body, &large);
        assert_eq!(parsed.is_ok(), ok, "{entries} entries");
    }
    for prompt in [json!(["x"]), json!("x"), json!([1, 2])] {
        complete(&engine, &json!({"prompt": prompt, "max_tokens": 1})).unwrap();
    }
    for prompt in [
        json!(["x", "y"]),
        json!([[1], [2]]),
        json!([1, "x"]),
        Value::Null,
    ] {
        assert_eq!(
            refused(complete(&engine, &json!({"prompt": prompt}))).1,
            "prompt"
        );
    }
}

#[test]
fn speculative_config_is_refused_by_the_key() {
    let valid = json!({"method": "ngram", "num_speculative_tokens": 5});
    let config = SpeculativeConfig::parse(&valid).unwrap();
    assert_eq!((config.prompt_lookup_min, config.prompt_lookup_max), (5, 5));
    for (key, value, ok) in [
        ("method", json!("draft_model"), true),
        ("method", json!("auto"), true),
        ("method", json!("medusa"), false),
        ("method", Value::Null, false),
        ("num_speculative_tokens", json!(0), false),
        ("num_speculative_tokens", json!(1), true),
        ("num_speculative_tokens", json!(15), true),
        ("num_speculative_tokens", json!(16), false),
        ("num_speculative_tokens", Value::Null, false),
        ("prompt_lookup_min", json!(0), false),
        ("prompt_lookup_min", json!(1), true),
        ("prompt_lookup_max", json!(64), true),
        ("prompt_lookup_max", json!(65), false),
        ("prompt_lookup_match", json!("latest"), true),
        ("prompt_lookup_match", json!("newest"), false),
        ("adaptive", json!(false), true),
        ("adaptive", json!(true), true),
        ("adaptive", json!("yes"), false),
        ("model", json!("x.gguf"), false),
        ("suffix_decoding_max_tree_depth", json!(24), false),
        ("ngram_size", json!(3), false),
    ] {
        let mut body = valid.clone();
        body[key] = value.clone();
        let parsed = SpeculativeConfig::parse(&body);
        assert_eq!(parsed.is_ok(), ok, "{key} = {value}");
        if let Err(error) = parsed {
            let name = format!("speculative_config.{key}");
            assert_eq!(error.param(), Some(&*name), "{error}");
            assert!(error.to_string().contains(&name), "{error}");
        }
    }
    // One given: the other is a copy. Both given: in order.
    let lookup = |min: Value, max: Value| {
        let mut body = valid.clone();
        body["prompt_lookup_min"] = min;
        body["prompt_lookup_max"] = max;
        SpeculativeConfig::parse(&body).map(|c| (c.prompt_lookup_min, c.prompt_lookup_max))
    };
    assert_eq!(lookup(json!(2), Value::Null).unwrap(), (2, 2));
    assert_eq!(lookup(Value::Null, json!(7)).unwrap(), (7, 7));
    assert_eq!(lookup(json!(2), json!(4)).unwrap(), (2, 4));
    assert!(lookup(json!(4), json!(2)).is_err());
    assert!(SpeculativeConfig::parse(&json!([])).is_err());
    assert!(SpeculativeConfig::parse(&json!({"num_speculative_tokens": 5})).is_err());

    // A request's own: never more drafts than the engine's, and off by null or false.
    let engine = engine_with(speculative_options(4));
    for (config, k) in [
        (json!({}), Some(4)),
        (json!({"num_speculative_tokens": 1}), Some(1)),
        (
            json!({"num_speculative_tokens": 4, "prompt_lookup_max": 2}),
            Some(4),
        ),
        (json!({"num_speculative_tokens": 5}), None),
        (json!({"method": "draft_model"}), None),
        (json!({"prompt_lookup_min": 9}), None),
    ] {
        let body = json!({"prompt": [20, 30], "max_tokens": 2, "speculative_config": config});
        let response = complete(&engine, &body);
        match k {
            Some(k) => {
                let metrics = response.unwrap()["metrics"]["speculative_decoding"].clone();
                assert_eq!(metrics["num_spec_tokens"], k, "{config}");
            }
            None => assert!(refused(response).1.starts_with("speculative_config.")),
        }
    }
    for config in [Value::Null, json!(false)] {
        let body = json!({"prompt": [20, 30], "max_tokens": 2, "speculative_config": config});
        let metrics = complete(&engine, &body).unwrap()["metrics"].clone();
        assert!(metrics["speculative_decoding"].is_null());
        assert_eq!(metrics["foretoken"]["active"], false);
        assert!(
            metrics["foretoken"]["reason"].is_null(),
            "it was not asked for"
        );
    }
}

fn tool() -> Value {
    json!({"type": "function", "function": {"name": "f"}})
}

fn called(function: Value) -> Value {
    json!([{"role": "assistant", "content": null, "tool_calls": [{"type": "function", "function": function}]}])
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!({}), |value, _| json!({"properties": value}))
}

#[test]
fn requests_are_refused_by_the_name_of_the_field() {
    let engine = engine();
    let user = json!([{"role": "user", "content": "x"}]);
    let cases: Vec<(&str, Value, &str)> = vec![
        ("tools", json!({}), "tools"),
        ("tools", json!(vec![tool(); 129]), "tools"),
        ("tools", json!([7]), "tools[0]"),
        ("tools", json!([{"type": "function"}]), "tools[0].function"),
        (
            "tools",
            json!([tool(), {"type": "custom", "function": {"name": "f"}}]),
            "tools[1].type",
        ),
        (
            "tools",
            json!([{"type": "function", "function": {"name": "a b"}}]),
            "tools[0].function.name",
        ),
        (
            "tools",
            json!([{"type": "function", "function": {"name": "x".repeat(65)}}]),
            "tools[0].function.name",
        ),
        (
            "tools",
            json!([{"type": "function", "function": {"name": "f", "parameters": "x"}}]),
            "tools[0].function.parameters",
        ),
        (
            "tools",
            json!([{"type": "function", "function": {"name": "f", "strict": true}}]),
            "tools[0].function.strict",
        ),
        (
            "tools",
            json!([{"type": "function", "function": {"name": "f", "colour": 1}}]),
            "tools[0].function.colour",
        ),
        (
            "tools",
            json!([{"type": "function", "function": {"name": "f", "parameters": nested(63)}}]),
            "tools",
        ),
        ("parallel_tool_calls", json!(false), "parallel_tool_calls"),
        ("documents", json!(["x"]), "documents[0]"),
        ("chat_template", json!("x"), "chat_template"),
        ("chat_template_kwargs", json!("x"), "chat_template_kwargs"),
        (
            "chat_template_kwargs",
            json!({"messages": []}),
            "chat_template_kwargs",
        ),
        (
            "chat_template_kwargs",
            json!({"a b": 1}),
            "chat_template_kwargs",
        ),
        ("add_generation_prompt", json!(1), "add_generation_prompt"),
        (
            "continue_final_message",
            json!("yes"),
            "continue_final_message",
        ),
        ("frequency", json!(1), "frequency"),
        ("functions", json!([]), "functions"),
        ("tool_choice", json!("auto"), "tool_choice"),
        ("tool_choice", json!("required"), "tool_choice"),
        (
            "tool_choice",
            json!({"type": "function", "function": {"name": "f"}}),
            "tool_choice",
        ),
        (
            "response_format",
            json!({"type": "json_object"}),
            "response_format",
        ),
        (
            "response_format",
            json!({"type": "json_schema", "json_schema": {}}),
            "response_format",
        ),
        ("guided_json", json!({}), "guided_json"),
        ("echo", json!(false), "echo"),
        ("temperature", json!("0"), "temperature"),
        ("top_k", json!(1.5), "top_k"),
        ("top_k", json!("40"), "top_k"),
        ("logprobs", json!(1), "logprobs"),
        ("top_logprobs", json!(1), "top_logprobs"),
        ("logit_bias", json!([]), "logit_bias"),
        ("logit_bias", json!({"07": 1}), "logit_bias"),
        ("logit_bias", json!({"-1": 1}), "logit_bias"),
        ("logit_bias", json!({"x": 1}), "logit_bias"),
        ("logit_bias", json!({"7": "1"}), "logit_bias"),
        ("logit_bias", json!({"7": null}), "logit_bias"),
        ("min_tokens", Value::Null, "min_tokens"),
        ("ignore_eos", Value::Null, "ignore_eos"),
        (
            "return_token_provenance",
            Value::Null,
            "return_token_provenance",
        ),
        (
            "speculative_config",
            json!({"num_speculative_tokens": 1}),
            "speculative_config",
        ),
        ("speculative_config", json!(true), "speculative_config"),
        ("seed", json!("7"), "seed"),
        ("seed", json!(18_446_744_073_709_551_616.0), "seed"),
        ("max_tokens", json!(1.5), "max_tokens"),
        ("max_tokens", json!("5"), "max_tokens"),
        ("max_tokens", json!(1_u64 << 60), "max_tokens"),
        ("seed", json!(1.5), "seed"),
        ("stop", json!(5), "stop"),
        ("stop", json!(["a", "b", "c", "d", "e"]), "stop"),
        ("stop", json!(""), "stop"),
        ("stop", json!("x".repeat(257)), "stop"),
        ("stop_token_ids", json!([512]), "stop_token_ids"),
        ("stop_token_ids", json!([-1]), "stop_token_ids"),
        ("stop_token_ids", json!(vec![1; 65]), "stop_token_ids"),
        ("stream", json!("yes"), "stream"),
        (
            "stream_options",
            json!({"include_usage": true}),
            "stream_options",
        ),
        ("metadata", json!("x"), "metadata"),
        ("user", json!(7), "user"),
        ("model", json!("gpt-4"), "model"),
        ("messages", Value::Null, "messages"),
        ("messages", json!("hello"), "messages"),
        ("messages", json!([]), "messages"),
        ("messages", json!([{"role": "user"}]), "messages[0].content"),
        (
            "messages",
            json!([{"role": "user", "content": null}]),
            "messages[0].content",
        ),
        (
            "messages",
            json!([{"role": "robot", "content": "x"}]),
            "messages[0].role",
        ),
        (
            "messages",
            json!([{"role": "user", "content": "x", "tool_calls": []}]),
            "messages[0].tool_calls",
        ),
        (
            "messages",
            called(json!({"name": "f", "arguments": "{\"a\": "})),
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            "messages",
            called(json!({"name": "f", "arguments": "[1]"})),
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            "messages",
            called(json!({"arguments": {}})),
            "messages[0].tool_calls[0].function.name",
        ),
        (
            "messages",
            json!([{"role": "assistant", "content": null, "tool_calls": []}]),
            "messages[0].content",
        ),
        (
            "messages",
            json!([{"role": "assistant", "content": "x", "refusal": "no"}]),
            "messages[0].refusal",
        ),
        (
            "messages",
            json!([{"role": "tool", "content": "x", "tool_call_id": 1}]),
            "messages[0].tool_call_id",
        ),
        (
            "messages",
            json!([{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]),
            "messages[0].content[0].type",
        ),
        (
            "messages",
            json!(vec![json!({"role": "user", "content": "x"}); 2049]),
            "messages",
        ),
    ];
    for (field, value, param) in cases {
        let mut body = json!({"messages": user, "temperature": 0});
        body[field] = value.clone();
        let (code, found, message) = refused(chat(&engine, &body));
        let expected = if field == "model" {
            "model_not_found"
        } else {
            "invalid_request"
        };
        assert_eq!(
            (&*code, &*found),
            (expected, param),
            "{field} = {value}: {message}"
        );
        assert!(message.contains(param), "{message}");
    }
    let both = json!({
        "messages": user, "continue_final_message": true, "add_generation_prompt": true,
    });
    assert_eq!(refused(chat(&engine, &both)).1, "continue_final_message");
    let missing = refused(chat(&engine, &json!({"temperature": 0})));
    assert_eq!(missing.1, "messages");
    let body = refused(chat(&engine, &json!([1])));
    assert_eq!((&*body.0, &*body.1), ("invalid_request", ""));

    // At the limits, and what changes nothing.
    let mut body = json!({
        "model": "tiny", "messages": user, "temperature": 0.0, "max_tokens": 2, "n": 1, "top_p": 1.0,
        "top_k": 0, "presence_penalty": 0, "seed": 18_446_744_073_709_551_615_u64, "user": "u",
        "metadata": {"a": "b"}, "stop": ["x".repeat(256)], "stop_token_ids": vec![511; 64],
        "logprobs": false, "store": false, "stream": false, "max_completion_tokens": 2,
        "response_format": {"type": "text"}, "tool_choice": "none", "logit_bias": {}, "min_p": null,
        "speculative_config": null, "tools": null, "parallel_tool_calls": true, "documents": null,
        "chat_template_kwargs": {"enable_thinking": false}, "add_generation_prompt": true,
        "continue_final_message": false,
    });
    chat(&engine, &body).unwrap();
    body["seed"] = json!(i64::MIN);
    body["stop"] = Value::Null;
    // Within their limits, but TINY's template shows no tools, which would then be dropped in silence.
    for tools in [
        json!(vec![tool(); 128]),
        json!([{"type": "function", "function": {"name": "f".repeat(64), "parameters": nested(62)}}]),
    ] {
        body["tools"] = tools;
        body["tool_choice"] = json!("auto");
        let (code, param, message) = refused(chat(&engine, &body));
        assert_eq!((&*code, &*param), ("invalid_request", "tools"));
        assert!(message.contains("does not show"), "{message}");
    }
    body["tools"] = json!([]);
    body["tool_choice"] = Value::Null;
    chat(&engine, &body).unwrap();
}
