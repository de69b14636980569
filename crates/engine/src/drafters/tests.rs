//! What the answers of an engine leave to later ones, however they end.

use foretoken_reference::CpuOps;
use foretoken_weights::BytesSource;
use pollster::block_on;
use serde_json::{Value, json};

use super::*;
use crate::{AbortSignal, CompletionRequest, Engine, EngineOptions};

fn engine(config: Value) -> Engine<CpuOps> {
    let source = BytesSource(include_bytes!("../../../../tests/data/tiny.gguf"));
    let options = EngineOptions {
        speculative_config: Some(SpeculativeConfig::parse(&config).unwrap()),
        ..EngineOptions::new("tiny", "cpu reference")
    };
    block_on(Engine::load(
        CpuOps::with_threads(1),
        &source,
        options,
        &mut |_| {},
    ))
    .unwrap()
}

fn suffix() -> Engine<CpuOps> {
    engine(json!({"method": "suffix", "num_speculative_tokens": 7, "adaptive": false}))
}

/// Runs a request for up to `pieces` pieces, then aborts it or drops it: the tokens of its last choice.
fn run(engine: &Engine<CpuOps>, more: &Value, pieces: usize, abort: bool) -> Vec<TokenId> {
    let mut body =
        json!({"prompt": [44, 55, 66], "temperature": 0, "max_tokens": 24, "ignore_eos": true});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    let request = CompletionRequest::parse(&body, &engine.limits()).unwrap();
    let signal = AbortSignal::new();
    let mut generation = engine.complete(&request, signal.clone()).unwrap();
    let mut tokens = Vec::new();
    for _ in 0..pieces {
        let Some(piece) = block_on(generation.next_piece()).unwrap() else {
            return tokens;
        };
        tokens.extend(piece.token_ids);
    }
    if abort {
        signal.abort();
        assert!(block_on(generation.next_piece()).is_err());
    }
    tokens
}

fn kept(engine: &Engine<CpuOps>) -> Vec<Vec<TokenId>> {
    let earlier = engine.shared.drafters.earlier.borrow();
    earlier.answers().map(<[TokenId]>::to_vec).collect()
}

#[test]
fn an_answer_is_kept_once_as_far_as_it_was_given() {
    let engine = suffix();
    let whole = run(&engine, &json!({}), usize::MAX, false);
    assert_eq!((whole.len(), kept(&engine)), (24, vec![whole.clone()]));
    let stopped_by_token = json!({"stop_token_ids": [whole[9]]});
    let stopped = run(&engine, &stopped_by_token, usize::MAX, false);
    assert_eq!(kept(&engine)[1..], [stopped]);

    // Drafts from the first answer make blocks of eight; a stop string takes back what is behind it.
    let request =
        json!({"prompt": [44, 55, 66], "max_tokens": 24, "temperature": 0, "ignore_eos": true});
    let request = CompletionRequest::parse(&request, &engine.limits()).unwrap();
    let mut generation = engine.complete(&request, AbortSignal::new()).unwrap();
    let mut ends = Vec::new();
    while let Some(piece) = block_on(generation.next_piece()).unwrap() {
        ends.push(generation.text().len());
        drop(piece);
    }
    let text = generation.text().to_owned();
    drop(generation);
    assert!(
        ends.len() < 15,
        "{} blocks: drafts are accepted",
        ends.len()
    );
    let mut taken_back = 0;
    for (start, c) in text.char_indices() {
        let stop = json!({"stop": c.to_string()});
        if text.find(c) != Some(start) || c == char::REPLACEMENT_CHARACTER {
            continue;
        }
        let answer = run(&engine, &stop, usize::MAX, false);
        assert!(whole.starts_with(&answer));
        taken_back += usize::from(!ends.iter().any(|end| *end == start + c.len_utf8()));
        assert_eq!(kept(&engine).last(), Some(&answer), "stopped at {c:?}");
    }
    assert!(taken_back > 2, "{taken_back} within a block");
}

#[test]
fn what_was_given_up_is_kept_as_far_as_it_came() {
    for abort in [true, false] {
        let engine = suffix();
        let tokens = run(&engine, &json!({}), 5, abort);
        assert_eq!(kept(&engine), [tokens], "aborted {abort}");
        // Before anything came.
        run(&engine, &json!({}), 0, abort);
        assert_eq!(kept(&engine).len(), 1);
    }
}

#[test]
fn each_choice_is_an_answer_and_others_are_none() {
    let engine = suffix();
    let both = run(
        &engine,
        &json!({"n": 2, "temperature": 1, "seed": 3}),
        usize::MAX,
        false,
    );
    assert_eq!(kept(&engine).concat(), both);
    assert_eq!(kept(&engine).len(), 2);
    for config in [
        json!(null),
        json!({"method": "ngram"}),
        json!({"suffix_decoding_max_cached_requests": 0}),
    ] {
        run(
            &engine,
            &json!({"speculative_config": config}),
            usize::MAX,
            false,
        );
        assert_eq!(kept(&engine).len(), 2, "{config}");
    }
    // An engine that drafts otherwise keeps answers of requests that ask for it.
    let engine = self::engine(json!({"method": "ngram", "num_speculative_tokens": 3}));
    run(&engine, &json!({}), usize::MAX, false);
    assert_eq!(kept(&engine).len(), 0);
    run(
        &engine,
        &json!({"speculative_config": {"method": "suffix"}}),
        usize::MAX,
        false,
    );
    assert_eq!(kept(&engine).len(), 1);
    // Two at most: the oldest goes.
    let engine = self::engine(json!({
        "method": "suffix", "num_speculative_tokens": 3, "suffix_decoding_max_cached_requests": 2,
    }));
    for max_tokens in [4, 5, 6] {
        run(
            &engine,
            &json!({"max_tokens": max_tokens}),
            usize::MAX,
            false,
        );
    }
    let lengths: Vec<usize> = kept(&engine).iter().map(Vec::len).collect();
    assert_eq!(lengths, [5, 6]);
}
