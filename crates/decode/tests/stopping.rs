//! Every cause that ends an answer, at every index of an accepted block: as plain decoding leaves it.

mod common;

use common::{Run, counting, detailed, endless, prompt, run, sequence};
use foretoken_core::{OpsError, Sampling, TokenId};
use foretoken_decode::drafters::puppet::{Puppet, Strategy};
use foretoken_decode::script::Script;
use foretoken_decode::{
    AbortSignal, DecodeError, DecodeLoop, DecodeOptions, Drafter, FinishReason, StopConditions,
    TokenProvenance,
};
use pollster::block_on;

const VOCAB: u32 = 64;
const CONTEXT: u32 = 64;
const PROMPT: [TokenId; 3] = [9, 4, 10];

/// Knows that the script counts, beyond every end.
fn oracle() -> Box<dyn Drafter> {
    let counted = (11..11 + 3 * VOCAB).map(|token| token % VOCAB);
    let answer = PROMPT.into_iter().chain(counted).collect();
    Box::new(Puppet::new(Strategy::Oracle, answer, VOCAB))
}

fn speculate(stop: &StopConditions, k: usize) -> Run {
    let options = detailed(&Sampling::greedy(), stop, Some(oracle()), k);
    run(&mut counting(VOCAB, CONTEXT).rig(), &PROMPT, options).unwrap()
}

/// Every k, and every index of its block that a token can end at.
fn every_index() -> impl Iterator<Item = (usize, usize)> {
    (1..=15).flat_map(|k| (0..=k).map(move |index| (k, index)))
}

/// The prompt's pass chose 11; the first verified block begins with 12.
fn assert_ends_in_first_block(run: &Run, index: usize, finish: FinishReason) {
    let expected: Vec<TokenId> = (11..=12 + index as u32).collect();
    assert_eq!(run.answer.tokens, expected);
    assert_eq!(run.answer.logprobs.len(), expected.len());
    assert_eq!(run.answer.finish, finish);
    assert_eq!(run.blocks, [1, index + 1]);
    assert_eq!(run.sequence.tokens().len(), 3 + expected.len());
}

#[test]
fn a_stop_token() {
    for (k, index) in every_index() {
        let stop = StopConditions {
            token_ids: vec![12 + index as u32],
            ..endless(CONTEXT)
        };
        let run = speculate(&stop, k);
        assert_ends_in_first_block(&run, index, FinishReason::Stop);
        // Verification is counted, not emission.
        assert_eq!(run.statistics.num_accepted_draft_tokens, k as u64);
        assert_eq!(
            run.statistics.emitted_from_drafts,
            k.min(index + 1) as u64,
            "k {k}, index {index}"
        );
        assert_eq!(
            run.provenance.last() == Some(&TokenProvenance::Bonus),
            index == k
        );
    }
}

#[test]
fn max_tokens_does_not_cut_drafts() {
    for (k, index) in every_index() {
        let stop = StopConditions {
            max_tokens: index + 2,
            ..endless(CONTEXT)
        };
        let run = speculate(&stop, k);
        assert_ends_in_first_block(&run, index, FinishReason::Length);
        assert_eq!(run.statistics.num_draft_tokens, k as u64);
    }
}

#[test]
fn the_contexts_end_cuts_drafts() {
    for (k, index) in every_index() {
        // 3 of the prompt, 1 of its pass, and then room for index + 1.
        let context = 4 + index + 1;
        let stop = endless(context as u32);
        for script_context in [context as u32, CONTEXT] {
            let options = detailed(&Sampling::greedy(), &stop, Some(oracle()), k);
            let mut rig = counting(VOCAB, script_context).rig();
            let run = run(&mut rig, &PROMPT, options).unwrap();
            assert_ends_in_first_block(&run, index, FinishReason::Length);
            assert_eq!(run.statistics.num_draft_tokens, k.min(index + 1) as u64);
        }
    }
}

#[test]
fn prompts_up_to_the_contexts_end() {
    let script = Script::seeded(5, VOCAB, CONTEXT);
    for len in 56..=63 {
        let tokens = prompt(len, VOCAB);
        let expected = common::naive(&script, &tokens, &Sampling::greedy(), &endless(CONTEXT), 3);
        let answer = [&tokens[..], &expected.tokens].concat();
        for strategy in Strategy::all(0) {
            let puppet = Puppet::new(strategy, answer.clone(), VOCAB);
            let options = detailed(
                &Sampling::greedy(),
                &endless(CONTEXT),
                Some(Box::new(puppet)),
                8,
            );
            // The rig asserts that no row stands beyond the context.
            let run = run(&mut script.rig(), &tokens, options).unwrap();
            assert_eq!(run.answer, expected, "{len} tokens, {strategy:?}");
        }
    }
    for len in [64, 65] {
        let options = detailed(&Sampling::greedy(), &endless(CONTEXT), Some(oracle()), 8);
        let error = run(&mut script.rig(), &prompt(len, VOCAB), options).unwrap_err();
        assert!(matches!(error, DecodeError::ContextExceeded { .. }));
    }
}

#[test]
fn a_stop_string() {
    for (k, index) in every_index() {
        let (mut ops, model) = counting(VOCAB, CONTEXT).rig();
        let options = detailed(&Sampling::greedy(), &endless(CONTEXT), Some(oracle()), k);
        let mut decode = DecodeLoop::new(sequence(0, &PROMPT), options, AbortSignal::new());
        for _ in 0..2 {
            block_on(decode.step(&mut ops, &model)).unwrap();
        }
        assert_eq!(decode.generated().len(), k + 2);
        decode.stop_after(index + 2);
        assert_eq!(
            decode.generated(),
            (11..=12 + index as u32).collect::<Vec<_>>()
        );
        assert_eq!(decode.finish(), Some(FinishReason::Stop));
        assert_eq!(decode.sequence().kv_len(), 3 + index + 1);
        ops.audit(decode.sequence());
        let statistics = decode.statistics().unwrap();
        assert_eq!(statistics.num_accepted_draft_tokens, k as u64);
        assert_eq!(statistics.emitted_from_drafts, k.min(index + 1) as u64);
        let after = block_on(decode.step(&mut ops, &model)).unwrap();
        assert_eq!(
            (after.tokens.len(), after.finish),
            (0, Some(FinishReason::Stop))
        );
    }
}

#[test]
fn an_abort_leaves_whole_blocks() {
    for k in 1..=15 {
        for steps in 0..3 {
            let (mut ops, model) = counting(VOCAB, CONTEXT).rig();
            let abort = AbortSignal::new();
            let options = detailed(&Sampling::greedy(), &endless(CONTEXT), Some(oracle()), k);
            let mut decode = DecodeLoop::new(sequence(0, &PROMPT), options, abort.clone());
            for _ in 0..steps {
                block_on(decode.step(&mut ops, &model)).unwrap();
            }
            abort.abort();
            let passes = ops.passes();
            let error = block_on(decode.step(&mut ops, &model)).unwrap_err();
            assert!(matches!(error, DecodeError::Aborted));
            assert_eq!(ops.passes(), passes);
            let expected = if steps == 0 {
                0
            } else {
                1 + (steps - 1) * (k + 1)
            };
            assert_eq!(
                decode.generated(),
                (11..11 + expected as u32).collect::<Vec<_>>()
            );
            ops.audit(decode.sequence());
        }
    }
}

/// Runs into an error; returns what was committed before.
fn until_error(script: &Script, options: DecodeOptions) -> (Vec<TokenId>, DecodeError) {
    let (mut ops, model) = script.rig();
    let mut decode = DecodeLoop::new(sequence(0, &PROMPT), options, AbortSignal::new());
    loop {
        let step = block_on(decode.step(&mut ops, &model));
        ops.audit(decode.sequence());
        match step {
            Ok(block) => assert_eq!(block.finish, None),
            Err(error) => return (decode.generated().to_vec(), error),
        }
    }
}

#[test]
fn logits_that_are_not_finite() {
    for (k, index) in every_index() {
        let counting = counting(VOCAB, CONTEXT);
        // Row `index` of the first verified block, and on.
        let script = Script::new(VOCAB, CONTEXT, move |prefix| {
            let mut logits = counting.logits(prefix);
            if prefix.len() >= 4 + index {
                logits[7] = f32::NAN;
            }
            logits
        });
        let plain = until_error(&script, DecodeOptions::plain(endless(CONTEXT)));
        let options = detailed(&Sampling::greedy(), &endless(CONTEXT), Some(oracle()), k);
        let speculative = until_error(&script, options);
        assert_eq!(plain.0, (11..12 + index as u32).collect::<Vec<_>>());
        assert_eq!(speculative.0, plain.0, "k {k}, index {index}");
        for error in [plain.1, speculative.1] {
            match error {
                DecodeError::NonFinite { position } => assert_eq!(position as usize, 3 + index),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn logits_behind_a_rejected_draft_are_nobodys_concern() {
    let counting = counting(VOCAB, CONTEXT);
    let script = Script::new(VOCAB, CONTEXT, move |prefix| {
        let mut logits = counting.logits(prefix);
        // After a token that plain decoding never sees.
        if prefix.contains(&3) {
            logits.fill(f32::INFINITY);
        }
        logits
    });
    let stop = StopConditions {
        max_tokens: 40,
        ..endless(CONTEXT)
    };
    let spam = Box::new(Puppet::new(Strategy::Spam(3), Vec::new(), VOCAB));
    let options = detailed(&Sampling::greedy(), &stop, Some(spam), 7);
    let run = run(&mut script.rig(), &PROMPT, options).unwrap();
    assert_eq!(run.answer.tokens, (11..51).collect::<Vec<_>>());
}

#[test]
fn a_lost_device() {
    let (mut ops, model) = counting(VOCAB, CONTEXT).rig();
    let options = detailed(&Sampling::greedy(), &endless(CONTEXT), Some(oracle()), 4);
    let mut decode = DecodeLoop::new(sequence(0, &PROMPT), options, AbortSignal::new());
    for _ in 0..2 {
        block_on(decode.step(&mut ops, &model)).unwrap();
    }
    ops.lose_device_after(0);
    let error = block_on(decode.step(&mut ops, &model)).unwrap_err();
    assert!(matches!(
        error,
        DecodeError::Device(OpsError::DeviceLost { .. })
    ));
    assert_eq!(decode.generated(), [11, 12, 13, 14, 15, 16]);
    assert_eq!(decode.statistics().unwrap().num_spec_steps, 1);
}
