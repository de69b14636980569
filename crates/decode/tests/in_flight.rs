//! Steps in flight on SCRIPT: the same tokens, and the same drafts, as when every step waits for the one before it.

mod common;

use common::{Random, detailed, naive, random_case, run, sequence};
use foretoken_core::{Sampling, TokenId};
use foretoken_decode::drafters::puppet::{Puppet, Strategy};
use foretoken_decode::drafters::{Drafter, MatchOrder, NgramDrafter};
use foretoken_decode::script::Script;
use foretoken_decode::{
    AbortSignal, AdaptiveSpeculation, DecodeError, DecodeLoop, DecodeOptions, StatisticsLevel,
    StepCosts,
};
use pollster::block_on;

fn ngram(case: u64) -> Option<Box<dyn Drafter>> {
    match case % 4 {
        0 => None,
        1 => Some(Box::new(NgramDrafter::new(1, 3, MatchOrder::Earliest))),
        2 => Some(Box::new(NgramDrafter::new(2, 2, MatchOrder::Latest))),
        _ => Some(Box::new(NgramDrafter::new(1, 5, MatchOrder::Latest))),
    }
}

#[test]
fn the_same_answer_by_the_same_drafts_in_five_thousand_cases() {
    let mut spare = 0;
    let mut drafted = 0;
    for case in 0..5000 {
        let mut random = Random(1_000_000 + case);
        let c = random_case(&mut random);
        let k = (case / 4 % 16) as usize;
        let steps_a_wait = 1 + (case / 64 % 8) as usize;
        let expected = naive(&c.script, &c.prompt, &c.sampling, &c.stop, 0);
        let mut rig = c.script.rig();
        let options = detailed(&c.sampling, &c.stop, ngram(case), k);
        let waiting = run(&mut rig, &c.prompt, options).unwrap();

        let (mut ops, model) = rig;
        let options = DecodeOptions {
            steps_a_wait,
            logprobs: None,
            ..detailed(&c.sampling, &c.stop, ngram(case), k)
        };
        let prompt = sequence(0, &c.prompt);
        let mut flying = DecodeLoop::new(prompt, options, AbortSignal::new());
        let before = ops.passes();
        let mut blocks = Vec::new();
        let mut provenance = Vec::new();
        let mut prefill_passes = 0;
        while flying.finish().is_none() {
            let block = block_on(flying.step(&mut ops, &model)).unwrap();
            ops.audit(flying.sequence());
            if blocks.is_empty() {
                prefill_passes = ops.passes() - before;
            }
            blocks.push(block.tokens.len());
            provenance.extend(block.provenance);
        }
        assert_eq!(flying.generated(), expected.tokens, "case {case}: {c:?}");
        assert_eq!(flying.finish(), Some(expected.finish));
        assert_eq!(blocks, waiting.blocks, "case {case}: {c:?}");
        assert_eq!(provenance, waiting.provenance);
        assert_eq!(*flying.sequence(), waiting.sequence);
        let s = flying.statistics().unwrap().clone();
        assert_eq!(s.per_step_drafted, waiting.statistics.per_step_drafted);
        assert_eq!(s.per_step_accepted, waiting.statistics.per_step_accepted);
        assert_eq!(s.plain_steps, waiting.statistics.plain_steps);
        common::assert_identities(&s, &flying.take_counters());
        // What ran after the end.
        let passes = ops.passes() - before - prefill_passes;
        let extra = passes - (blocks.len() as u64 - 1);
        assert!(extra < 2 * steps_a_wait as u64, "case {case}: {extra}");
        spare += extra;
        drafted += s.num_draft_tokens;
    }
    assert!(spare > 1000 && drafted > 10_000, "{spare}, {drafted}");
}

#[test]
fn adaptive_drafts_change_no_token_either() {
    for case in 0..400 {
        let mut random = Random(2_000_000 + case);
        let c = random_case(&mut random);
        let expected = naive(&c.script, &c.prompt, &c.sampling, &c.stop, 0);
        let costs = StepCosts::from_measured(&[(1, 1.0), (16, 1.0 + (case % 5) as f64)]).unwrap();
        let adaptive = AdaptiveSpeculation::new(
            std::rc::Rc::new(std::cell::RefCell::new(costs)),
            Default::default(),
        );
        let options = DecodeOptions {
            steps_a_wait: 1 + (case % 8) as usize,
            logprobs: None,
            adaptive: Some(adaptive),
            ..detailed(&c.sampling, &c.stop, ngram(1 + case % 3), 7)
        };
        let (mut ops, model) = c.script.rig();
        let prompt = sequence(0, &c.prompt);
        let mut decode = DecodeLoop::new(prompt, options, AbortSignal::new());
        while decode.finish().is_none() {
            block_on(decode.step(&mut ops, &model)).unwrap();
        }
        assert_eq!(decode.generated(), expected.tokens, "case {case}: {c:?}");
    }
}

fn plain(steps_a_wait: usize) -> DecodeOptions {
    DecodeOptions {
        steps_a_wait,
        statistics: StatisticsLevel::Summary,
        ..DecodeOptions::plain(common::endless(96))
    }
}

#[test]
fn what_the_device_cannot_follow_waits() {
    let script = common::counting(64, 96);
    let answer: Vec<TokenId> = (5..80).map(|i| i % 64).collect();
    let puppet = || -> Option<Box<dyn Drafter>> {
        Some(Box::new(Puppet::new(Strategy::Longest, answer.clone(), 64)))
    };
    let by_host = [
        DecodeOptions {
            drafter: puppet(),
            num_speculative_tokens: 2,
            ..plain(4)
        },
        DecodeOptions {
            logprobs: Some(1),
            ..plain(4)
        },
    ];
    for options in by_host {
        let (mut ops, model) = script.rig();
        let prompt = sequence(0, &[5]);
        let mut decode = DecodeLoop::new(prompt, options, AbortSignal::new());
        let mut steps = 0;
        while decode.finish().is_none() {
            block_on(decode.step(&mut ops, &model)).unwrap();
            steps += 1;
        }
        assert_eq!(ops.passes(), steps, "no pass is ahead");
    }
}

#[test]
fn an_abort_a_stop_string_and_another_answer_leave_nothing_behind() {
    let script = Script::seeded(3, 32, 96);
    let (mut ops, model) = script.rig();
    let greedy = Sampling::greedy();
    let expected = naive(&script, &[1, 2], &greedy, &common::endless(96), 0).tokens;
    let abort = AbortSignal::new();
    let mut decode = DecodeLoop::new(sequence(0, &[1, 2]), plain(8), abort.clone());
    for _ in 0..4 {
        block_on(decode.step(&mut ops, &model)).unwrap();
    }
    abort.abort();
    let error = block_on(decode.step(&mut ops, &model)).unwrap_err();
    assert!(matches!(error, DecodeError::Aborted));
    assert_eq!(decode.generated(), &expected[..4]);
    ops.audit(decode.sequence());

    let mut decode = DecodeLoop::new(sequence(0, &[1, 2]), plain(3), AbortSignal::new());
    for _ in 0..9 {
        block_on(decode.step(&mut ops, &model)).unwrap();
    }
    decode.stop_after(7);
    assert_eq!(decode.generated(), &expected[..7]);
    ops.audit(decode.sequence());

    let run = run(
        &mut (ops, model),
        &[1, 2],
        detailed(&greedy, &common::endless(96), None, 0),
    );
    assert_eq!(run.unwrap().answer.tokens, expected);
}

#[test]
fn no_honest_choice_is_the_same_error_at_the_same_place() {
    // The logits of a prefix of ten tokens are no numbers.
    let script = Script::new(16, 64, |prefix: &[TokenId]| {
        let mut logits = vec![0.0; 16];
        logits[(prefix.len() * 3) % 5] = 1.0;
        if prefix.len() == 10 {
            logits[3] = f32::NAN;
        }
        logits
    });
    let mut seen = Vec::new();
    for (steps_a_wait, case) in [(0, 0), (1, 0), (8, 0), (0, 1), (2, 1), (8, 1)] {
        let (mut ops, model) = script.rig();
        let options = DecodeOptions {
            drafter: ngram(case),
            num_speculative_tokens: 4,
            ..plain(steps_a_wait)
        };
        let prompt = sequence(0, &[1, 2]);
        let mut decode = DecodeLoop::new(prompt, options, AbortSignal::new());
        let error = loop {
            match block_on(decode.step(&mut ops, &model)) {
                Ok(_) => assert!(decode.finish().is_none()),
                Err(error) => break error,
            }
        };
        assert!(
            matches!(error, DecodeError::NonFinite { position: 9 }),
            "{error:?}"
        );
        seen.push(decode.generated().to_vec());
        ops.audit(decode.sequence());
    }
    assert_eq!(seen[0].len(), 8);
    assert!(seen.iter().all(|tokens| *tokens == seen[0]), "{seen:?}");
}

#[test]
fn a_lost_device_is_an_error_and_the_committed_tokens_stay() {
    let script = common::counting(64, 96);
    for steps_a_wait in [1, 4] {
        let (mut ops, model) = script.rig();
        let options = plain(steps_a_wait);
        let mut decode = DecodeLoop::new(sequence(0, &[5]), options, AbortSignal::new());
        for _ in 0..5 {
            block_on(decode.step(&mut ops, &model)).unwrap();
        }
        ops.lose_device_after(1);
        let before = decode.generated().to_vec();
        let lost = loop {
            match block_on(decode.step(&mut ops, &model)) {
                Ok(_) => assert!(decode.finish().is_none()),
                Err(error) => break error,
            }
        };
        assert!(matches!(lost, DecodeError::Device(_)), "{lost:?}");
        assert!(decode.generated().starts_with(&before));
    }
}
