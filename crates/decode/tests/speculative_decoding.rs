//! Speculation on SCRIPT: whoever drafts, and whatever, the answer is that of plain decoding.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use common::{Random, detailed, endless, naive, random_case, run};
use foretoken_core::{Sampling, TokenId};
use foretoken_decode::drafters::puppet::{Puppet, Strategy};
use foretoken_decode::drafters::{
    Drafter, EarlierAnswers, MatchOrder, NgramDrafter, SuffixDrafter, SuffixOptions,
};
use foretoken_decode::script::Script;
use foretoken_decode::{AbortSignal, DecodeLoop, DecodeOptions, StatisticsLevel};
use pollster::block_on;

/// Cases `from..to` of a fixed list; each takes the next drafter and, after all drafters, the next k. Answers of any case
/// are what the suffix drafters of later cases look in.
fn equals_plain_decoding(from: u64, to: u64) {
    let suffix = SuffixOptions::default();
    let earlier = EarlierAnswers::new(suffix.max_tree_depth as usize, 50);
    let earlier = Rc::new(RefCell::new(earlier));
    let mut speculated = 0;
    let mut fully_accepted = 0;
    let mut rejected = 0;
    for case in from..to {
        let mut random = Random(case);
        let c = random_case(&mut random);
        let k = (case / 11 % 16) as usize;
        let expected = naive(&c.script, &c.prompt, &c.sampling, &c.stop, 3);
        // Beyond the answer's end too, so that accepted blocks have to be cut.
        let beyond = naive(&c.script, &c.prompt, &c.sampling, &endless(c.context), 0);
        let answer: Vec<TokenId> = c.prompt.iter().copied().chain(beyond.tokens).collect();
        let spam = c.stop.token_ids.first().copied().unwrap_or(c.vocab - 1);
        let drafter: Box<dyn Drafter> = match case % 11 {
            8 => Box::new(NgramDrafter::new(1, 3, MatchOrder::Earliest)),
            9 => Box::new(NgramDrafter::new(2, 2, MatchOrder::Latest)),
            10 => Box::new(SuffixDrafter::new(suffix, Some(Rc::clone(&earlier)))),
            i => Box::new(Puppet::new(
                Strategy::all(spam)[i as usize],
                answer,
                c.vocab,
            )),
        };

        let mut rig = c.script.rig();
        let options = detailed(&c.sampling, &c.stop, Some(drafter), k);
        let speculative = run(&mut rig, &c.prompt, options).unwrap();
        assert_eq!(speculative.answer, expected, "case {case}, k {k}: {c:?}");
        earlier.borrow_mut().enter(&speculative.answer.tokens);
        // On the same device, over what rejected drafts left behind.
        let options = detailed(&c.sampling, &c.stop, None, k);
        let plain = run(&mut rig, &c.prompt, options).unwrap();
        assert_eq!(plain.answer, expected, "case {case}, plain: {c:?}");
        assert_eq!(plain.sequence, speculative.sequence);
        assert_eq!(plain.statistics.num_proposed_tokens, 0);

        let s = &speculative.statistics;
        assert_eq!(s.num_spec_tokens, k);
        speculated += s.num_spec_steps;
        rejected += s.acceptance_histogram[0];
        fully_accepted += s.acceptance_histogram[1..].last().unwrap_or(&0);
        if case % 11 == 0 && k > 0 && expected.tokens.len() > 1 {
            // The oracle is never wrong.
            assert_eq!(s.draft_acceptance_rate(), 1.0, "case {case}");
        }
    }
    assert!(
        speculated > (to - from) * 2 && rejected > to - from && fully_accepted > (to - from) / 10,
        "{speculated} steps, {rejected} rejected, {fully_accepted} fully accepted"
    );
}

#[test]
fn equals_plain_decoding_in_ten_thousand_cases() {
    equals_plain_decoding(0, 10_000);
}

#[test]
#[ignore = "a minute; cargo xtask test --all"]
fn equals_plain_decoding_in_two_hundred_thousand_cases() {
    equals_plain_decoding(10_000, 210_000);
}

#[test]
fn a_seed_is_one_answer_alone_and_beside_others() {
    let script = Script::seeded(1, 32, 128);
    let sampling = Sampling {
        temperature: 1.0,
        seed: 7,
        ..Sampling::greedy()
    };
    let stop = endless(128);
    let prompt = [3, 1, 4];
    let expected = naive(&script, &prompt, &sampling, &stop, 0).tokens;
    let options = |k| DecodeOptions {
        sampling: sampling.clone(),
        drafter: Some(Box::new(Puppet::new(
            Strategy::Random,
            [&prompt[..], &expected].concat(),
            32,
        ))),
        num_speculative_tokens: k,
        ..DecodeOptions::plain(stop.clone())
    };
    let (mut ops, model) = script.rig();
    for k in 0..20 {
        let mut alone =
            DecodeLoop::new(common::sequence(0, &prompt), options(k), AbortSignal::new());
        while alone.finish().is_none() {
            block_on(alone.step(&mut ops, &model)).unwrap();
        }
        assert_eq!(alone.generated(), expected, "alone, k {k}");
        let mut loops: Vec<DecodeLoop> = (0..3)
            .map(|slot| {
                let mut options = options(k);
                options.sampling.seed = 6 + u64::from(slot);
                let prompt = common::sequence(slot, &prompt);
                DecodeLoop::new(prompt, options, AbortSignal::new())
            })
            .collect();
        while loops.iter().any(|decode| decode.finish().is_none()) {
            for decode in &mut loops {
                block_on(decode.step(&mut ops, &model)).unwrap();
            }
        }
        assert_eq!(loops[1].generated(), expected, "beside others, k {k}");
        assert_ne!(
            loops[0].generated(),
            expected,
            "another seed, another answer"
        );
    }
}

#[test]
fn more_drafts_than_a_pass_holds_are_fifteen() {
    let script = common::counting(64, 256);
    let prompt = [5];
    let beyond = naive(&script, &prompt, &Sampling::greedy(), &endless(256), 0);
    let answer: Vec<TokenId> = prompt.iter().copied().chain(beyond.tokens).collect();
    let oracle = Box::new(Puppet::new(Strategy::Longest, answer, 64));
    let options = detailed(&Sampling::greedy(), &endless(256), Some(oracle), 1000);
    let run = run(&mut script.rig(), &prompt, options).unwrap();
    assert_eq!(run.statistics.num_spec_tokens, 15);
    assert_eq!(run.blocks[1..15], [16; 14]);
}

#[test]
fn nothing_is_reported_that_was_not_asked_for() {
    let (mut ops, model) = common::counting(64, 64).rig();
    let options = DecodeOptions {
        drafter: Some(Box::new(NgramDrafter::new(1, 1, MatchOrder::Earliest))),
        num_speculative_tokens: 4,
        ..DecodeOptions::plain(endless(64))
    };
    assert_eq!(options.statistics, StatisticsLevel::None);
    let prompt = common::sequence(0, &[1, 2, 3, 1]);
    let mut decode = DecodeLoop::new(prompt, options, AbortSignal::new());
    while decode.finish().is_none() {
        let block = block_on(decode.step(&mut ops, &model)).unwrap();
        assert_eq!((block.logprobs.len(), block.provenance.len()), (0, 0));
    }
    assert!(decode.statistics().is_none());
    assert!(
        decode.take_counters().num_drafts > 0,
        "counted at any level"
    );
}
