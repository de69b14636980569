//! Prefix reuse: what a request takes over from the one before never shows in its answer.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use foretoken_core::{MAX_PREFILL_ROWS, Phase};
use foretoken_engine::{AbortSignal, CompletionRequest, Engine, EngineOptions, PrefixReuse};
use foretoken_reference::CpuOps;
use pollster::block_on;
use serde_json::{Value, json};

use crate::rig::{Random, complete, engine_on, engine_with, options, speculative_options};
use crate::watched_ops::WatchedOps;

fn with_reuse(prefix_reuse: PrefixReuse) -> EngineOptions {
    EngineOptions {
        prefix_reuse,
        ..speculative_options(3)
    }
}

fn body(prompt: &[u32]) -> Value {
    json!({
        "prompt": prompt, "temperature": 0.7, "seed": 3, "max_tokens": 6, "ignore_eos": true,
        "return_token_ids": true, "frequency_penalty": -1,
    })
}

fn cached(response: &Value) -> u64 {
    response["usage"]["prompt_tokens_details"]["cached_tokens"]
        .as_u64()
        .unwrap()
}

#[test]
fn any_order_of_prompts_equals_a_fresh_engine() {
    let fresh = |prompt: &[u32]| -> Value {
        complete(&engine_with(options()), &body(prompt)).unwrap()["choices"].clone()
    };
    let engines: Vec<(PrefixReuse, Engine<CpuOps>)> =
        [PrefixReuse::Exact, PrefixReuse::Off, PrefixReuse::Full]
            .map(|reuse| (reuse, engine_with(with_reuse(reuse))))
            .into();
    let mut taken_over = [0, 0, 0];
    for seed in 0..200 {
        let mut random = Random(seed);
        let (len, other) = (20 + random.below(36), 5 + random.below(50));
        let p1 = random.tokens(len);
        let p2 = random.tokens(other);
        let mut changed = p1.clone();
        let at = random.below(len);
        changed[at] = (changed[at] + 1) % 500;
        let shorter = p1[..1 + random.below(len)].to_vec();
        let mut prompts = vec![p1.clone(), p2, p1, changed, shorter];
        // The published order first, then any.
        if seed > 50 {
            for i in (1..prompts.len()).rev() {
                prompts.swap(i, random.below(i + 1));
            }
        }
        for prompt in &prompts {
            let expected = fresh(prompt);
            for ((reuse, engine), taken_over) in engines.iter().zip(&mut taken_over) {
                let response = complete(engine, &body(prompt)).unwrap();
                assert_eq!(response["choices"], expected, "{reuse:?}, seed {seed}");
                *taken_over += cached(&response);
                if random.below(2) == 0 {
                    block_on(engine.idle()).unwrap();
                }
            }
        }
    }
    println!("taken over, exact, off, full: {taken_over:?}");
    assert!(taken_over[0] > 0 && taken_over[2] > taken_over[0]);
    assert_eq!(taken_over[1], 0);
}

#[test]
fn exact_runs_the_passes_of_a_fresh_engine() {
    let ops = WatchedOps::new();
    let passes = std::rc::Rc::clone(&ops.passes);
    let engine = engine_on(ops, with_reuse(PrefixReuse::Exact));
    let mut random = Random(1);
    let first = random.tokens(40);
    passes.borrow_mut().clear();
    assert_eq!(cached(&complete(&engine, &body(&first)).unwrap()), 0);
    let prefill =
        |passes: &std::cell::RefCell<Vec<crate::watched_ops::Pass>>| -> Vec<(u32, usize)> {
            let taken = passes.take();
            let taken = taken
                .into_iter()
                .filter(|(phase, ..)| *phase == Phase::Prefill);
            taken.map(|(_, position, rows)| (position, rows)).collect()
        };
    assert_eq!(prefill(&passes), [(0, 32), (32, 8)]);
    // Again: the first pass is there, the second runs as it ran.
    let again = complete(&engine, &body(&first)).unwrap();
    assert_eq!((cached(&again), prefill(&passes)), (32, vec![(32, 8)]));
    // A next turn repeats prompt and answer; what decoding made does not count until the engine was idle.
    let start = random.tokens(28);
    let mut turn = start.clone();
    let answer = complete(&engine, &body(&start)).unwrap();
    let answer = answer["choices"][0]["token_ids"].as_array().unwrap();
    turn.extend(answer.iter().map(|token| token.as_u64().unwrap() as u32));
    turn.extend(random.tokens(10));
    passes.take();
    let idle = |engine: &Engine<WatchedOps>| block_on(engine.idle()).unwrap();
    idle(&engine);
    assert_eq!(
        prefill(&passes),
        [(0, 32)],
        "the answer's tokens, in whole passes"
    );
    idle(&engine);
    assert_eq!(prefill(&passes), [], "once");
    let next = complete(&engine, &body(&turn)).unwrap();
    assert_eq!((cached(&next), prefill(&passes)), (32, vec![(32, 12)]));
    assert_eq!(MAX_PREFILL_ROWS, 32, "what the numbers above are");
    let fresh = complete(&engine_with(options()), &body(&turn)).unwrap();
    assert_eq!(next["choices"], fresh["choices"]);
}

#[test]
fn a_prompt_cut_off_in_its_midst_counts_as_far_as_it_ran() {
    for reuse in [PrefixReuse::Exact, PrefixReuse::Full] {
        let engine = engine_on(WatchedOps::new(), with_reuse(reuse));
        let mut random = Random(3);
        complete(&engine, &body(&random.tokens(50))).unwrap();
        let prompt = random.tokens(58);
        let request = CompletionRequest::parse(&body(&prompt), &engine.limits()).unwrap();
        let mut generation = engine.complete(&request, AbortSignal::new()).unwrap();
        {
            let mut step = pin!(generation.next_piece());
            let mut context = Context::from_waker(Waker::noop());
            for _ in 0..1 + usize::from(reuse == PrefixReuse::Exact) {
                assert!(step.as_mut().poll(&mut context).is_pending());
            }
        }
        drop(generation);
        let found = complete(&engine, &body(&prompt)).unwrap();
        let fresh = complete(&engine_with(options()), &body(&prompt)).unwrap();
        assert_eq!(found["choices"], fresh["choices"], "{reuse:?}");
        // The first pass was waited for in one case, and not in the other.
        let expected = if reuse == PrefixReuse::Exact { 32 } else { 0 };
        assert_eq!(cached(&found), expected, "{reuse:?}");
    }
}

#[test]
fn a_failure_leaves_nothing_to_take_over() {
    let engine = engine_on(WatchedOps::spoiling(100), with_reuse(PrefixReuse::Full));
    let prompt: Vec<u32> = (20..60).collect();
    let mut spoilt = prompt.clone();
    spoilt[39] = 100;
    let error = complete(&engine, &body(&spoilt)).unwrap_err();
    assert_eq!(error.code(), "internal", "{error}");
    assert!(error.to_string().contains("NaN"), "{error}");
    let found = complete(&engine, &body(&prompt)).unwrap();
    assert_eq!(cached(&found), 0);
    let fresh = complete(&engine_with(options()), &body(&prompt)).unwrap();
    assert_eq!(found["choices"], fresh["choices"]);
    assert_eq!(engine.metrics().requests.error, 1);
}

#[test]
fn choices_share_the_prompt_whatever_the_mode() {
    for reuse in [PrefixReuse::Exact, PrefixReuse::Off, PrefixReuse::Full] {
        let ops = WatchedOps::new();
        let passes = std::rc::Rc::clone(&ops.passes);
        let engine = engine_on(ops, with_reuse(reuse));
        passes.take();
        let mut request = body(&Random(2).tokens(40));
        request["n"] = json!(3);
        let response = complete(&engine, &request).unwrap();
        assert_eq!(cached(&response), 0, "none of it is from a request before");
        let prefilled: usize = passes
            .take()
            .into_iter()
            .filter(|(phase, ..)| *phase == Phase::Prefill)
            .map(|(_, _, rows)| rows)
            .sum();
        let expected = if reuse == PrefixReuse::Full {
            40 + 2
        } else {
            40 + 2 * 8
        };
        assert_eq!(prefilled, expected, "{reuse:?}");
    }
}
