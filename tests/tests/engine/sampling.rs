//! Speculation changes no token, whatever the way of choosing; and what is chosen obeys what was asked.

use serde_json::{Value, json};

use crate::rig::{
    Random, complete, engine, engine_with, ids, speculative_options, stream_completion,
};

/// Ways of choosing; most make the model repeat itself, so that drafts are accepted.
fn mixes() -> Vec<Value> {
    vec![
        json!({"temperature": 0}),
        json!({"temperature": 0, "frequency_penalty": -2}),
        json!({"temperature": 0, "repetition_penalty": 0.5, "presence_penalty": 1.5}),
        json!({"temperature": 1}),
        json!({"temperature": 0.7, "presence_penalty": -2, "frequency_penalty": -1}),
        json!({"temperature": 1.5, "top_k": 5, "frequency_penalty": -2}),
        json!({"temperature": 1, "top_p": 0.4, "repetition_penalty": 0.6}),
        json!({"temperature": 0.9, "min_p": 0.3, "presence_penalty": -1.5}),
        json!({"temperature": 0.8, "top_k": 20, "top_p": 0.9, "min_p": 0.02, "frequency_penalty": -1}),
        json!({"temperature": 2, "logit_bias": {"100": 60, "101": 60, "7": -100}}),
        json!({"temperature": 1, "logit_bias": {"219": 40}, "min_tokens": 5, "stop_token_ids": [219]}),
        json!({"temperature": 0.01, "frequency_penalty": 2, "repetition_penalty": 1.3}),
    ]
}

fn body(mix: &Value, prompt: &[u32], seed: u64) -> Value {
    let mut body = mix.clone();
    body["prompt"] = json!(prompt);
    body["seed"] = json!(seed);
    body["ignore_eos"] = json!(true);
    body["return_token_ids"] = json!(true);
    body
}

#[test]
fn speculation_changes_no_token_in_any_mix() {
    let plain = engine();
    let (mut drafted, mut accepted) = (0, 0);
    for k in [1, 2, 3, 7, 15] {
        let speculative = engine_with(speculative_options(k));
        let mut random = Random(u64::from(k));
        for mix in mixes() {
            for seed in 0..3 {
                let len = 2 + random.below(30);
                let mut prompt = random.tokens(len);
                // Something to look up.
                prompt.extend_from_within(..len / 2);
                let body = body(&mix, &prompt, seed);
                let expected = complete(&plain, &body).unwrap();
                let found = complete(&speculative, &body).unwrap();
                assert_eq!(found["choices"], expected["choices"], "k {k}: {body}");
                let metrics = &found["metrics"]["speculative_decoding"];
                drafted += metrics["num_draft_tokens"].as_u64().unwrap();
                accepted += metrics["num_accepted_draft_tokens"].as_u64().unwrap();
                let other = json!({"num_speculative_tokens": 1, "prompt_lookup_match": "latest", "prompt_lookup_max": 2});
                let mut varied = body.clone();
                varied["speculative_config"] = other;
                let found = complete(&speculative, &varied).unwrap();
                assert_eq!(found["choices"], expected["choices"], "k 1 of {k}: {body}");
                // How many tokens a step drafts then follows measured times: any number of them.
                varied["speculative_config"] = json!({"adaptive": true});
                let found = complete(&speculative, &varied).unwrap();
                assert_eq!(
                    found["choices"], expected["choices"],
                    "adaptive up to {k}: {body}"
                );
            }
        }
    }
    println!("{accepted} of {drafted} drafts accepted");
    assert!(drafted > 1000 && accepted > 200 && accepted < drafted);
}

#[test]
fn tiny_temperatures_are_greedy_and_seeds_matter_above() {
    let engine = engine();
    let tokens = |mut body: Value| {
        body["prompt"] = json!([50, 60, 70]);
        body["max_tokens"] = json!(12);
        body["return_token_ids"] = json!(true);
        ids(&complete(&engine, &body).unwrap()["choices"][0]["token_ids"])
    };
    let greedy = tokens(json!({"temperature": 0}));
    for temperature in [1e-300, 1e-30, 1e-6, 1e-4] {
        assert_eq!(
            tokens(json!({"temperature": temperature, "seed": 5})),
            greedy
        );
    }
    let absent = tokens(json!({"seed": 5}));
    assert_eq!(absent, tokens(json!({"temperature": 1, "seed": 5})));
    assert_ne!(absent, tokens(json!({"seed": 6})));
    assert_ne!(absent, tokens(json!({"seed": 5_i64 + (1 << 40)})));
    assert_eq!(tokens(json!({"top_k": 1, "seed": 9})), greedy);
    assert_ne!(
        tokens(json!({})),
        tokens(json!({})),
        "a seed is drawn each time"
    );
}

#[test]
fn a_seed_gives_one_answer_alone_or_among_others() {
    let prompt = [44, 55, 66, 44, 55];
    let seven = body(&json!({"temperature": 1, "max_tokens": 20}), &prompt, 7);
    let expected = complete(&engine(), &seven).unwrap()["choices"].clone();
    for k in [1, 5] {
        let engine = engine_with(speculative_options(k));
        for round in 0..20 {
            assert_eq!(complete(&engine, &seven).unwrap()["choices"], expected);
            let other = body(&json!({"temperature": 1, "n": 2}), &prompt[..3], round);
            complete(&engine, &other).unwrap();
        }
    }
}

#[test]
fn a_seed_that_was_drawn_is_reported_and_gives_the_answer_again() {
    let engine = engine_with(speculative_options(3));
    let mut body = json!({"prompt": [44, 55, 66], "max_tokens": 16, "return_token_ids": true});
    let first = complete(&engine, &body).unwrap();
    let seed = &first["metrics"]["foretoken"]["seed"];
    assert!(seed.as_u64().unwrap() < 1 << 53);
    body["seed"] = seed.clone();
    let again = complete(&engine, &body).unwrap();
    assert_eq!(again["choices"], first["choices"]);
}

#[test]
fn a_forbidden_token_never_comes() {
    for engine in [engine(), engine_with(speculative_options(4))] {
        // What it would say, said in the prompt, is what the drafter proposes.
        let free = json!({
            "prompt": [219, 219, 219, 219], "temperature": 0, "max_tokens": 30,
            "ignore_eos": true, "return_token_ids": true, "frequency_penalty": -2,
        });
        let said = ids(&complete(&engine, &free).unwrap()["choices"][0]["token_ids"]);
        let mut bound = free.clone();
        for token in said.iter().take(6) {
            bound["logit_bias"][token.to_string()] = json!(-100);
            let heard = complete(&engine, &bound).unwrap();
            let heard = ids(&heard["choices"][0]["token_ids"]);
            assert!(!heard.contains(token), "{token} in {heard:?}");
        }
    }
}

#[test]
fn min_tokens_end_where_plain_decoding_ends() {
    let plain = engine();
    for k in 1..=5 {
        let speculative = engine_with(speculative_options(k));
        for m in 1..=6_usize {
            // Token 100 is all it wants to say, and ends the answer.
            let body = json!({
                "prompt": [100, 100, 100, 100], "temperature": 0, "logit_bias": {"100": 100},
                "stop_token_ids": [100], "min_tokens": m, "max_tokens": 20, "return_token_ids": true,
            });
            let expected = complete(&plain, &body).unwrap();
            let found = complete(&speculative, &body).unwrap();
            assert_eq!(found["choices"], expected["choices"], "k {k}, m {m}");
            let tokens = ids(&found["choices"][0]["token_ids"]);
            assert_eq!(tokens.len(), m + 1);
            assert_eq!(tokens.iter().position(|token| *token == 100), Some(m));
        }
    }
}

#[test]
fn min_tokens_hold_for_stop_strings_too() {
    let engine = engine();
    let body = |stop: Value, min: usize| {
        json!({
            "prompt": "The keeper wrote", "temperature": 0, "max_tokens": 20, "ignore_eos": true,
            "stop": stop, "min_tokens": min, "return_token_ids": true,
        })
    };
    let free = complete(&engine, &body(Value::Null, 0)).unwrap();
    let text = free["choices"][0]["text"].as_str().unwrap();
    let stop: String = text
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(1)
        .collect();
    let early = complete(&engine, &body(json!(stop), 0)).unwrap();
    assert_eq!(early["choices"][0]["finish_reason"], "stop");
    let late = complete(&engine, &body(json!(stop), 15)).unwrap();
    let tokens = ids(&late["choices"][0]["token_ids"]).len();
    assert!(tokens > 15, "{tokens}");
    let never = complete(&engine, &body(json!(stop), 20)).unwrap();
    assert_eq!(never["choices"], free["choices"]);
}

/// A repetitive answer of 40 tokens, so that drafts are accepted.
fn repetitive(extra: Value) -> Value {
    let mut body = json!({
        "prompt": [219, 97, 123, 219, 97, 123], "temperature": 0, "frequency_penalty": -2,
        "max_tokens": 40, "ignore_eos": true, "return_token_ids": true,
    });
    for (name, value) in extra.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

#[test]
fn a_stop_at_any_token_is_plain_decodings() {
    let plain = engine();
    let speculative = engine_with(speculative_options(7));
    let whole = complete(&plain, &repetitive(json!({}))).unwrap();
    let tokens = ids(&whole["choices"][0]["token_ids"]);
    let cut_drafts = std::cell::Cell::new(0);
    let both = |extra: Value| {
        let body = repetitive(extra);
        let expected = complete(&plain, &body).unwrap();
        let found = complete(&speculative, &body).unwrap();
        assert_eq!(found["choices"], expected["choices"], "{body}");
        let metrics = &found["metrics"];
        let accepted = metrics["speculative_decoding"]["num_accepted_draft_tokens"].as_u64();
        let emitted = metrics["foretoken"]["num_emitted_from_drafts"].as_u64();
        assert!(emitted <= accepted);
        cut_drafts.set(cut_drafts.get() + u32::from(emitted < accepted));
        let usage = |of: &Value| of["usage"]["completion_tokens"].clone();
        assert_eq!(usage(&found), usage(&expected));
        // The next request is clean.
        assert_eq!(
            complete(&speculative, &repetitive(json!({}))).unwrap()["choices"],
            whole["choices"]
        );
        found
    };
    for (i, token) in tokens.iter().enumerate() {
        both(json!({"max_tokens": i + 1}));
        both(json!({"stop_token_ids": [token], "min_tokens": i}));
        let found = both(json!({"stop_token_ids": [token]}));
        assert_eq!(found["choices"][0]["finish_reason"], "stop");
    }
    let text: Vec<char> = whole["choices"][0]["text"]
        .as_str()
        .unwrap()
        .chars()
        .collect();
    for pair in text.windows(2) {
        let stop: String = pair.iter().collect();
        both(json!({"stop": stop}));
    }
    println!("{} answers ended within accepted drafts", cut_drafts.get());
    assert!(cut_drafts.get() > 0);
}

#[test]
fn prompts_up_to_the_contexts_end() {
    let plain = engine();
    let speculative = engine_with(speculative_options(8));
    for len in [50, 60, 61, 62, 63, 64, 65] {
        let prompt: Vec<u32> = [97, 123].into_iter().cycle().take(len).collect();
        let body = json!({
            "prompt": prompt, "temperature": 0, "frequency_penalty": -2, "ignore_eos": true,
            "return_token_ids": true, "return_token_provenance": true,
        });
        let expected = complete(&plain, &body);
        let found = complete(&speculative, &body);
        if len < 64 {
            let (expected, found) = (expected.unwrap(), found.unwrap());
            let tokens = |of: &Value| ids(&of["choices"][0]["token_ids"]);
            assert_eq!(tokens(&found), tokens(&expected), "{len}");
            assert_eq!(tokens(&found).len(), 64 - len);
            assert_eq!(found["choices"][0]["finish_reason"], "length");
        } else {
            assert_eq!(found.unwrap_err().code(), "context_length_exceeded");
        }
    }
}

#[test]
fn logprobs_are_the_same_with_speculation() {
    let plain = engine();
    let speculative = engine_with(speculative_options(5));
    let mut accepted = 0;
    for extra in [
        json!({"logprobs": 3}),
        json!({"logprobs": 20, "temperature": 0.8, "seed": 3}),
        json!({"logprobs": 0, "top_k": 2, "temperature": 1, "seed": 4}),
    ] {
        let body = repetitive(extra.clone());
        let expected = complete(&plain, &body).unwrap();
        let found = complete(&speculative, &body).unwrap();
        let metrics = &found["metrics"]["speculative_decoding"];
        accepted += metrics["num_accepted_draft_tokens"].as_u64().unwrap();
        let (found, expected) = (&found["choices"][0], &expected["choices"][0]);
        assert_eq!(found["token_ids"], expected["token_ids"]);
        let (found, expected) = (&found["logprobs"], &expected["logprobs"]);
        for list in ["tokens", "text_offset"] {
            assert_eq!(found[list], expected[list]);
        }
        let top = extra["logprobs"].as_u64().unwrap() as usize;
        for i in 0..40 {
            let logprob = |of: &Value| of["token_logprobs"][i].as_f64().unwrap();
            assert!((logprob(found) - logprob(expected)).abs() <= 1e-4);
            assert_ne!(logprob(found), 0.0, "accepted is not certain");
            let tops = |of: &Value| of["top_logprobs"][i].as_object().unwrap().clone();
            let (found, expected) = (tops(found), tops(expected));
            assert!(found.len() >= top.saturating_sub(1).max(1) && found.len() <= top + 1);
            for (token, logprob) in &expected {
                let found = found[token].as_f64().unwrap();
                assert!(
                    (found - logprob.as_f64().unwrap()).abs() <= 1e-4,
                    "{token:?}"
                );
            }
        }
    }
    assert!(accepted > 0);
}

#[test]
fn text_offsets_point_into_the_text_and_streams_add_up() {
    let engine = engine_with(speculative_options(4));
    let body = repetitive(
        json!({"logprobs": 1, "return_token_provenance": true, "n": 2, "temperature": 1, "frequency_penalty": 0, "seed": 1}),
    );
    let whole = complete(&engine, &body).unwrap();
    let mut streamed = body.clone();
    streamed["stream"] = json!(true);
    let chunks = stream_completion(&engine, &streamed);
    let mut found = 0;
    for (index, choice) in whole["choices"].as_array().unwrap().iter().enumerate() {
        let parts: Vec<&Value> = chunks
            .iter()
            .filter_map(|chunk| chunk["choices"].get(0))
            .filter(|part| part["index"] == index)
            .collect();
        let text: String = parts
            .iter()
            .map(|part| part["text"].as_str().unwrap())
            .collect();
        assert_eq!(choice["text"], text);
        for list in ["token_ids", "token_provenance"] {
            let joined: Vec<Value> = parts
                .iter()
                .flat_map(|part| part[list].as_array().unwrap().clone())
                .collect();
            assert_eq!(choice[list], json!(joined), "{list}");
        }
        for list in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
            let joined: Vec<Value> = parts
                .iter()
                .flat_map(|part| part["logprobs"][list].as_array().unwrap().clone())
                .collect();
            assert_eq!(choice["logprobs"][list], json!(joined), "{list}");
        }
        let characters: Vec<char> = text.chars().collect();
        let logprobs = &choice["logprobs"];
        for i in 0..40 {
            let token = logprobs["tokens"][i].as_str().unwrap();
            let offset = logprobs["text_offset"][i].as_u64().unwrap() as usize;
            if token.is_empty() || token.starts_with("bytes:") {
                continue;
            }
            let there: String = characters[offset..]
                .iter()
                .take(token.chars().count())
                .collect();
            // An unfinished character before it shows only now.
            found += usize::from(there == token);
        }
        let provenance = choice["token_provenance"].as_array().unwrap();
        assert_eq!(provenance[0], "prefill");
    }
    assert!(found > 0, "{whole}");
    assert_ne!(
        whole["choices"][0]["token_ids"],
        whole["choices"][1]["token_ids"]
    );
}

#[test]
fn choices_differ_by_their_index_alone() {
    let engine = engine_with(speculative_options(3));
    let body = |n: u32, seed: u64| json!({"prompt": [40, 50, 60, 40, 50], "max_tokens": 12, "n": n, "seed": seed, "return_token_ids": true});
    let four = complete(&engine, &body(4, 11)).unwrap();
    assert_eq!(four["usage"]["completion_tokens"], {
        let choices = four["choices"].as_array().unwrap();
        choices
            .iter()
            .map(|c| ids(&c["token_ids"]).len())
            .sum::<usize>()
    });
    let choices: Vec<Vec<u64>> = four["choices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|choice| ids(&choice["token_ids"]))
        .collect();
    for (i, choice) in choices.iter().enumerate() {
        assert!(!choices[..i].contains(choice), "{i} is another's");
    }
    for n in [1, 2, 3] {
        let fewer = complete(&engine, &body(n, 11)).unwrap();
        for (fewer, more) in fewer["choices"]
            .as_array()
            .unwrap()
            .iter()
            .zip(four["choices"].as_array().unwrap())
        {
            assert_eq!(fewer, more);
        }
    }
    let greedy = json!({"prompt": [40, 50, 60], "max_tokens": 6, "n": 3, "temperature": 0, "return_token_ids": true});
    let greedy = complete(&engine, &greedy).unwrap();
    assert_eq!(
        greedy["choices"][0]["token_ids"],
        greedy["choices"][2]["token_ids"]
    );
}
