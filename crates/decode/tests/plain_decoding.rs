//! The plain loop on SCRIPT, against an argmax over the table.

use foretoken_core::{OpsError, TokenId};
use foretoken_decode::script::Script;
use foretoken_decode::{
    AbortSignal, Block, DecodeError, DecodeLoop, DecodeOptions, FinishReason, Sequence,
    StopConditions,
};
use pollster::block_on;

const VOCAB: u32 = 32;
const CONTEXT: u32 = 64;

fn prompt(len: usize) -> Vec<TokenId> {
    (0..len as u32).map(|i| (i * 7 + 3) % VOCAB).collect()
}

fn sequence(slot: u32, tokens: &[TokenId]) -> Sequence {
    let mut sequence = Sequence::new(slot);
    sequence.commit(tokens);
    sequence
}

fn stop(max_tokens: usize, token_ids: &[TokenId]) -> StopConditions {
    StopConditions {
        token_ids: token_ids.to_vec(),
        max_tokens,
        context: CONTEXT as usize,
    }
}

/// Plain greedy decoding, written without the loop.
fn naive(
    script: &Script,
    prompt: &[TokenId],
    stop: &StopConditions,
) -> (Vec<TokenId>, FinishReason) {
    let mut tokens = prompt.to_vec();
    loop {
        let token = script.greedy(&tokens);
        tokens.push(token);
        let generated = tokens.len() - prompt.len();
        if stop.token_ids.contains(&token) {
            return (tokens[prompt.len()..].to_vec(), FinishReason::Stop);
        }
        if generated == stop.max_tokens || tokens.len() == stop.context {
            return (tokens[prompt.len()..].to_vec(), FinishReason::Length);
        }
    }
}

fn run(
    script: &Script,
    prompt: &[TokenId],
    stop: &StopConditions,
) -> Result<(Vec<TokenId>, FinishReason), DecodeError> {
    let (mut ops, model) = script.rig();
    let mut answer = DecodeLoop::new(
        sequence(0, prompt),
        DecodeOptions::plain(stop.clone()),
        AbortSignal::new(),
    );
    let mut tokens = Vec::new();
    loop {
        let block = block_on(answer.step(&mut ops, &model))?;
        tokens.extend(&block.tokens);
        ops.audit(answer.sequence());
        assert_eq!(
            answer.sequence().kv_len() + 1,
            answer.sequence().tokens().len()
        );
        assert_eq!(answer.generated(), tokens);
        if let Some(finish) = block.finish {
            let again = block_on(answer.step(&mut ops, &model))?;
            assert_eq!(
                again,
                Block {
                    finish: Some(finish),
                    ..Block::default()
                }
            );
            return Ok((tokens, finish));
        }
    }
}

#[test]
fn equals_argmax_over_the_table() {
    let mut stopped = 0;
    for seed in 0..300 {
        let script = Script::seeded(seed, VOCAB, CONTEXT);
        let prompt = prompt(1 + seed as usize % 63);
        let stop = stop(1 + seed as usize % 40, &[5, 9]);
        let expected = naive(&script, &prompt, &stop);
        stopped += usize::from(expected.1 == FinishReason::Stop);
        assert_eq!(
            run(&script, &prompt, &stop).unwrap(),
            expected,
            "seed {seed}"
        );
    }
    assert!(
        (30..270).contains(&stopped),
        "both endings occur, not {stopped} of 300 stops"
    );
}

/// The script's next token is the last one plus one.
fn counting(context: u32) -> Script {
    Script::new(VOCAB, context, |prefix| {
        let next = (prefix[prefix.len() - 1] + 1) % VOCAB;
        (0..VOCAB)
            .map(|token| if token == next { 1.0 } else { 0.0 })
            .collect()
    })
}

#[test]
fn stops_at_a_stop_token_and_keeps_it() {
    let out = run(&counting(CONTEXT), &[3], &stop(100, &[7])).unwrap();
    assert_eq!(out, (vec![4, 5, 6, 7], FinishReason::Stop));
    let first = run(&counting(CONTEXT), &[3], &stop(100, &[4])).unwrap();
    assert_eq!(first, (vec![4], FinishReason::Stop));
}

#[test]
fn a_stop_token_wins_over_the_lengths() {
    assert_eq!(
        run(&counting(CONTEXT), &[3], &stop(2, &[5])).unwrap(),
        (vec![4, 5], FinishReason::Stop)
    );
}

#[test]
fn max_tokens_one_below_at_and_above() {
    for max in 1..5 {
        let (tokens, finish) = run(&counting(CONTEXT), &[3], &stop(max, &[6])).unwrap();
        assert_eq!(tokens.len(), max.min(3));
        assert_eq!(
            finish,
            if max < 3 {
                FinishReason::Length
            } else {
                FinishReason::Stop
            }
        );
    }
}

#[test]
fn prompts_near_the_end_of_the_context() {
    let script = counting(CONTEXT);
    for len in [62, 63] {
        let (tokens, finish) = run(&script, &prompt(len), &stop(100, &[])).unwrap();
        assert_eq!((tokens.len(), finish), (64 - len, FinishReason::Length));
    }
    for len in [64, 65] {
        match run(&script, &prompt(len), &stop(100, &[])) {
            Err(DecodeError::ContextExceeded {
                prompt,
                context: 64,
            }) => assert_eq!(prompt, len as u64),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn refuses_tokens_outside_the_vocabulary_and_empty_prompts() {
    let script = counting(CONTEXT);
    let bad = run(&script, &[1, VOCAB, 2], &stop(4, &[])).unwrap_err();
    assert!(matches!(
        bad,
        DecodeError::TokenOutOfVocabulary {
            token: VOCAB,
            position: 1,
            vocab: VOCAB
        }
    ));
    // The id that stands for "the token on the device" is no way around it.
    let bad = run(&script, &[u32::MAX], &stop(4, &[])).unwrap_err();
    assert!(matches!(
        bad,
        DecodeError::TokenOutOfVocabulary { position: 0, .. }
    ));
    assert!(matches!(
        run(&script, &[], &stop(4, &[])),
        Err(DecodeError::EmptyPrompt)
    ));
}

#[test]
fn non_finite_logits_are_an_error_with_a_position() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let script = Script::new(VOCAB, CONTEXT, move |prefix| {
            let mut logits = vec![0.0; VOCAB as usize];
            if prefix.len() == 5 {
                logits[17] = bad;
            }
            logits
        });
        // In decoding, and in prefill.
        for len in [3, 5] {
            match run(&script, &prompt(len), &stop(10, &[])) {
                Err(DecodeError::NonFinite { position: 4 }) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn an_abort_keeps_what_was_committed() {
    let script = counting(CONTEXT);
    let (mut ops, model) = script.rig();
    let abort = AbortSignal::new();
    let mut answer = DecodeLoop::new(
        sequence(0, &[3]),
        DecodeOptions::plain(stop(20, &[])),
        abort.clone(),
    );
    for _ in 0..3 {
        block_on(answer.step(&mut ops, &model)).unwrap();
    }
    abort.abort();
    let passes = ops.passes();
    assert!(matches!(
        block_on(answer.step(&mut ops, &model)),
        Err(DecodeError::Aborted)
    ));
    assert_eq!((answer.generated(), ops.passes()), (&[4, 5, 6][..], passes));
    ops.audit(answer.sequence());
}

#[test]
fn a_lost_device_is_an_error_and_the_committed_tokens_stay() {
    let (mut ops, model) = counting(CONTEXT).rig();
    let mut answer = DecodeLoop::new(
        sequence(0, &[3]),
        DecodeOptions::plain(stop(20, &[])),
        AbortSignal::new(),
    );
    block_on(answer.step(&mut ops, &model)).unwrap();
    ops.lose_device_after(1);
    block_on(answer.step(&mut ops, &model)).unwrap();
    match block_on(answer.step(&mut ops, &model)) {
        Err(DecodeError::Device(OpsError::DeviceLost { .. })) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(answer.generated(), [4, 5]);
}

#[test]
fn a_stop_string_takes_later_tokens_back() {
    let (mut ops, model) = counting(CONTEXT).rig();
    let mut answer = DecodeLoop::new(
        sequence(0, &[3]),
        DecodeOptions::plain(stop(20, &[])),
        AbortSignal::new(),
    );
    for _ in 0..4 {
        block_on(answer.step(&mut ops, &model)).unwrap();
    }
    answer.stop_after(2);
    assert_eq!(
        (answer.generated(), answer.finish()),
        (&[4, 5][..], Some(FinishReason::Stop))
    );
    assert!(answer.sequence().kv_len() <= answer.sequence().tokens().len());
    ops.audit(answer.sequence());
}

#[test]
fn one_pass_and_one_wait_a_token() {
    let (mut ops, model) = Script::seeded(1, VOCAB, 4096).rig();
    let mut answer = DecodeLoop::new(
        sequence(0, &prompt(40)),
        DecodeOptions::plain(StopConditions {
            token_ids: Vec::new(),
            max_tokens: 50,
            context: 4096,
        }),
        AbortSignal::new(),
    );
    block_on(answer.step(&mut ops, &model)).unwrap();
    assert_eq!(ops.passes(), 2, "40 tokens are two passes of prefill");
    let (passes, reads) = (ops.passes(), ops.reads());
    for step in 1..=10 {
        block_on(answer.step(&mut ops, &model)).unwrap();
        assert_eq!((ops.passes(), ops.reads()), (passes + step, reads + step));
    }
}

#[test]
fn a_kept_prefix_is_not_run_again_and_changes_nothing() {
    let script = Script::seeded(3, VOCAB, 256);
    let tokens = prompt(100);
    let conditions = StopConditions {
        token_ids: Vec::new(),
        max_tokens: 8,
        context: 256,
    };
    let expected = naive(&script, &tokens, &conditions);
    for kept in [0, 1, 31, 32, 33, 99] {
        let (mut ops, model) = script.rig();
        let abort = AbortSignal::new();
        let mut first = sequence(2, &tokens[..kept.max(1)]);
        block_on(foretoken_decode::prefill(
            &mut ops, &model, &mut first, &abort,
        ))
        .unwrap();
        first.truncate(kept);
        first.commit(&tokens[kept..]);
        let mut answer = DecodeLoop::new(first, DecodeOptions::plain(conditions.clone()), abort);
        while answer.finish().is_none() {
            block_on(answer.step(&mut ops, &model)).unwrap();
            ops.audit(answer.sequence());
        }
        assert_eq!(answer.generated(), expected.0, "{kept} tokens kept");
    }
}

#[test]
fn two_sequences_interleaved_equal_each_alone() {
    let script = Script::seeded(11, VOCAB, CONTEXT);
    let (mut ops, model) = script.rig();
    let conditions = stop(12, &[]);
    let prompts = [prompt(9), prompt(20)];
    let mut answers: Vec<_> = (0..2)
        .map(|i| {
            DecodeLoop::new(
                sequence(i as u32, &prompts[i]),
                DecodeOptions::plain(conditions.clone()),
                AbortSignal::new(),
            )
        })
        .collect();
    while answers.iter().any(|answer| answer.finish().is_none()) {
        for answer in &mut answers {
            block_on(answer.step(&mut ops, &model)).unwrap();
        }
    }
    for (answer, prompt) in answers.iter().zip(&prompts) {
        assert_eq!(answer.generated(), naive(&script, prompt, &conditions).0);
    }
}
