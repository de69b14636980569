//! Every processor of logits, alone, at every position of a verified block.

mod common;

use common::{counting, detailed, endless, forgetful, naive, run};
use foretoken_core::{Sampling, TokenId};
use foretoken_decode::StopConditions;
use foretoken_decode::drafters::puppet::{Puppet, Strategy};

const VOCAB: u32 = 16;
const CONTEXT: u32 = 512;

fn sampled() -> Sampling {
    Sampling {
        temperature: 1.0,
        seed: 11,
        ..Sampling::greedy()
    }
}

/// Each processor on top of what it needs to matter.
fn processors() -> Vec<(&'static str, Sampling, Sampling)> {
    let greedy = Sampling::greedy;
    vec![
        (
            "logit_bias",
            Sampling {
                logit_bias: vec![(3, -100.0), (5, 1.0)],
                ..greedy()
            },
            greedy(),
        ),
        (
            "min_tokens",
            Sampling {
                min_tokens: 200,
                stop_ids: vec![0, 2],
                ..greedy()
            },
            greedy(),
        ),
        (
            "repetition_penalty",
            Sampling {
                repetition_penalty: 1.5,
                ..greedy()
            },
            greedy(),
        ),
        (
            "frequency_penalty",
            Sampling {
                frequency_penalty: 0.25,
                ..greedy()
            },
            greedy(),
        ),
        (
            "presence_penalty",
            Sampling {
                presence_penalty: 0.75,
                ..greedy()
            },
            greedy(),
        ),
        ("temperature", sampled(), greedy()),
        (
            "top_k",
            Sampling {
                top_k: 3,
                ..sampled()
            },
            sampled(),
        ),
        (
            "top_p",
            Sampling {
                top_p: 0.7,
                ..sampled()
            },
            sampled(),
        ),
        (
            "min_p",
            Sampling {
                min_p: 0.2,
                ..sampled()
            },
            sampled(),
        ),
    ]
}

#[test]
fn each_acts_at_every_position_of_a_block_as_in_plain_decoding() {
    let script = forgetful(4, VOCAB, CONTEXT, 2);
    let prompt = [1, 2, 3];
    for (name, sampling, without) in processors() {
        let expected = naive(&script, &prompt, &sampling, &endless(CONTEXT), 3);
        let other = naive(&script, &prompt, &without, &endless(CONTEXT), 3);
        assert_ne!(expected.tokens, other.tokens, "{name} changes nothing here");
        let answer = [&prompt[..], &expected.tokens].concat();
        // A drafter that does not know of the processor.
        let misled = [&prompt[..], &other.tokens].concat();
        for k in 1..=15 {
            for strategy in [Strategy::Alternating, Strategy::Oracle, Strategy::Random] {
                for known in [&answer, &misled] {
                    let puppet = Box::new(Puppet::new(strategy, known.clone(), VOCAB));
                    let options = detailed(&sampling, &endless(CONTEXT), Some(puppet), k);
                    let run = run(&mut script.rig(), &prompt, options).unwrap();
                    assert_eq!(run.answer, expected, "{name}, k {k}, {strategy:?}");
                    if strategy == Strategy::Alternating && known == &answer {
                        let h = &run.statistics.acceptance_histogram;
                        assert!(h.iter().all(|n| *n > 0), "every length accepted: {h:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_banned_token_never_comes_however_often_it_is_drafted() {
    // Token 7 is the favourite everywhere.
    let script = common::forgetful(9, VOCAB, CONTEXT, 2);
    let favourite = foretoken_decode::script::Script::new(VOCAB, CONTEXT, move |prefix| {
        let mut logits = script.logits(prefix);
        logits[7] = 9.0;
        logits
    });
    let plain = naive(&favourite, &[1], &Sampling::greedy(), &endless(100), 0);
    assert!(plain.tokens.iter().all(|token| *token == 7));
    for temperature in [0.0, 1.0] {
        for k in 1..=15 {
            let sampling = Sampling {
                temperature,
                logit_bias: vec![(7, -100.0)],
                ..sampled()
            };
            let expected = naive(&favourite, &[1], &sampling, &endless(CONTEXT), 3);
            let puppet = Puppet::new(Strategy::Spam(7), Vec::new(), VOCAB);
            let options = detailed(&sampling, &endless(CONTEXT), Some(Box::new(puppet)), k);
            let run = run(&mut favourite.rig(), &[1], options).unwrap();
            assert!(!run.answer.tokens.contains(&7));
            assert_eq!(run.answer, expected);
            assert_eq!(run.statistics.num_accepted_draft_tokens, 0);
        }
    }
}

#[test]
fn min_tokens_holds_the_end_back_to_the_same_index_in_thirty_cells() {
    const EOS: TokenId = 5;
    // The model wants to end at every step; counting goes on behind it.
    let counting = counting(VOCAB, CONTEXT);
    let script = foretoken_decode::script::Script::new(VOCAB, CONTEXT, move |prefix| {
        let mut logits = counting.logits(prefix);
        logits[EOS as usize] = 9.0;
        logits
    });
    for min_tokens in 1..=6 {
        for k in 1..=5 {
            let sampling = Sampling {
                min_tokens,
                stop_ids: vec![EOS],
                ..Sampling::greedy()
            };
            let stop = StopConditions {
                token_ids: vec![EOS],
                ..endless(CONTEXT)
            };
            let expected = naive(&script, &[7], &sampling, &stop, 3);
            assert_eq!(expected.tokens.len(), min_tokens as usize + 1);
            let beyond = naive(&script, &[7], &sampling, &endless(CONTEXT), 0);
            let answer = [&[7][..], &beyond.tokens].concat();
            for strategy in Strategy::all(EOS) {
                let puppet = Box::new(Puppet::new(strategy, answer.clone(), VOCAB));
                let options = detailed(&sampling, &stop, Some(puppet), k);
                let run = run(&mut script.rig(), &[7], options).unwrap();
                assert_eq!(run.answer, expected, "m {min_tokens}, k {k}, {strategy:?}");
            }
        }
    }
}

#[test]
fn token_ids_that_the_model_does_not_have_are_left_out() {
    let script = forgetful(4, VOCAB, CONTEXT, 2);
    let known = Sampling {
        min_tokens: 20,
        stop_ids: vec![0],
        logit_bias: vec![(3, -100.0)],
        ..Sampling::greedy()
    };
    let stop = endless(100);
    let expected = naive(&script, &[1], &known, &stop, 3);
    let mut with_unknown = known;
    with_unknown.stop_ids.extend([VOCAB, u32::MAX]);
    with_unknown
        .logit_bias
        .extend([(VOCAB, 5.0), (u32::MAX, 5.0)]);
    let options = detailed(&with_unknown, &stop, None, 0);
    let run = run(&mut script.rig(), &[1], options).unwrap();
    assert_eq!(run.answer, expected);
}
