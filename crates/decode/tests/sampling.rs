//! Sampling: the distribution is the processed one, the processed one is Hugging Face's, and speculation draws the
//! same tokens.

mod common;

use std::collections::HashMap;

use common::{Random, forgetful, sequence};
use foretoken_core::sampling::MASKED;
use foretoken_core::{Chooser, Chosen, Sampling, TokenId};
use foretoken_decode::drafters::puppet::{Puppet, Strategy};
use foretoken_decode::drafters::{MatchOrder, NgramDrafter};
use foretoken_decode::script::{Script, ScriptModel, ScriptOps};
use foretoken_decode::{AbortSignal, DecodeLoop, DecodeOptions, Drafter, StopConditions};
use pollster::block_on;
use serde::Deserialize;

/// The distribution that processed logits stand for.
fn softmax(logits: &[f32]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(MASKED, f32::max);
    let mass: Vec<f64> = logits
        .iter()
        .map(|&logit| {
            if logit == MASKED {
                0.0
            } else {
                (f64::from(logit) - f64::from(largest)).exp()
            }
        })
        .collect();
    let sum: f64 = mass.iter().sum();
    mass.into_iter().map(|m| m / sum).collect()
}

#[derive(Deserialize)]
struct Reference {
    cases: Vec<ReferenceCase>,
}

#[derive(Deserialize)]
struct ReferenceCase {
    sampling: ReferenceSampling,
    logits: Vec<f32>,
    prompt: Vec<TokenId>,
    output: Vec<TokenId>,
    drafts: Vec<TokenId>,
    probabilities: Vec<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ReferenceSampling {
    temperature: f32,
    top_k: u32,
    top_p: f32,
    min_p: f32,
    repetition_penalty: f32,
    frequency_penalty: f32,
    presence_penalty: f32,
    min_tokens: u32,
    stop_ids: Vec<TokenId>,
    logit_bias: Vec<(TokenId, f32)>,
}

impl Default for ReferenceSampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            min_tokens: 0,
            stop_ids: Vec::new(),
            logit_bias: Vec::new(),
        }
    }
}

#[test]
fn processed_distributions_are_hugging_faces() {
    let reference: Reference = serde_json::from_str(include_str!("golden/sampling.json")).unwrap();
    assert!(reference.cases.len() >= 40);
    for (i, case) in reference.cases.iter().enumerate() {
        let s = &case.sampling;
        let sampling = Sampling {
            temperature: s.temperature,
            top_k: s.top_k,
            top_p: s.top_p,
            min_p: s.min_p,
            repetition_penalty: s.repetition_penalty,
            frequency_penalty: s.frequency_penalty,
            presence_penalty: s.presence_penalty,
            min_tokens: s.min_tokens,
            stop_ids: s.stop_ids.clone(),
            logit_bias: s.logit_bias.clone(),
            ..Sampling::greedy()
        };
        let mut chooser = Chooser::new(sampling, &case.prompt);
        for token in &case.output {
            chooser.commit(*token);
        }
        let before = case.prompt.len() + case.output.len() + case.drafts.len();
        let processed = chooser.processed(&case.logits, before as u32 - 1, &case.drafts);
        for (token, (ours, theirs)) in softmax(&processed)
            .into_iter()
            .zip(&case.probabilities)
            .enumerate()
        {
            assert!(
                (ours - theirs).abs() < 1e-6 && (ours == 0.0) == (*theirs == 0.0),
                "case {i} {s:?}, token {token}: {ours} against {theirs}"
            );
        }
    }
}

/// The chance that chi-square with `df` degrees of freedom exceeds `x`: Q(df/2, x/2).
fn chi_square_tail(x: f64, df: usize) -> f64 {
    let (a, x) = (df as f64 / 2.0, x / 2.0);
    // ln Γ of a half-integer, by the recurrence from Γ(1/2) or Γ(1).
    let mut ln_gamma = if df.is_multiple_of(2) {
        0.0
    } else {
        std::f64::consts::PI.sqrt().ln()
    };
    let mut at = if df.is_multiple_of(2) { 1.0 } else { 0.5 };
    while at < a - 0.25 {
        ln_gamma += f64::ln(at);
        at += 1.0;
    }
    // The series of the lower function; good for the moderate values that occur here.
    let mut term = 1.0 / a;
    let mut sum = term;
    for n in 1..2000 {
        term *= x / (a + f64::from(n));
        sum += term;
    }
    (1.0 - sum * (a * x.ln() - x - ln_gamma).exp()).max(0.0)
}

#[test]
fn the_tail_of_chi_square_is_the_tables() {
    for (x, df, p) in [
        (3.841_459, 1, 0.05),
        (10.827_566, 1, 0.001),
        (14.067_140, 7, 0.05),
        (24.321_886, 7, 0.001),
        (103.442_377, 63, 0.001),
    ] {
        assert!((chi_square_tail(x, df) - p).abs() < 1e-6, "{x} {df}");
    }
}

/// Asserts that counts fit a distribution at p > 0.001; what cannot happen must not have.
fn assert_fits(counts: &[u64], probabilities: &[f64], what: &str) {
    let n = counts.iter().sum::<u64>() as f64;
    let (mut statistic, mut cells) = (0.0, 0);
    // Cells of an expectation below 5 are taken together.
    let (mut rare, mut rare_expected) = (0.0, 0.0);
    for (&count, &p) in counts.iter().zip(probabilities) {
        if p == 0.0 {
            assert_eq!(count, 0, "{what}: a token that is ruled out");
        } else if n * p < 5.0 {
            rare += count as f64;
            rare_expected += n * p;
        } else {
            statistic += (count as f64 - n * p).powi(2) / (n * p);
            cells += 1;
        }
    }
    if rare_expected > 1.0 {
        statistic += (rare - rare_expected).powi(2) / rare_expected;
        cells += 1;
    }
    assert!(cells > 1, "{what}: one outcome says nothing");
    let p = chi_square_tail(statistic, cells - 1);
    assert!(
        p > 0.001,
        "{what}: chi-square {statistic:.1} of {cells} cells, p = {p:.5}"
    );
}

const VOCAB: usize = 8;

/// A mix of temperature, top-k, top-p, min-p and penalties.
fn mixes() -> Vec<Sampling> {
    let plain = Sampling {
        temperature: 1.0,
        ..Sampling::greedy()
    };
    vec![
        plain.clone(),
        Sampling {
            temperature: 0.7,
            top_k: 4,
            ..plain.clone()
        },
        Sampling {
            temperature: 1.5,
            top_p: 0.9,
            min_p: 0.02,
            ..plain.clone()
        },
        Sampling {
            temperature: 2.0,
            repetition_penalty: 1.2,
            presence_penalty: 0.5,
            top_k: 6,
            ..plain
        },
    ]
}

fn token(chosen: Chosen) -> TokenId {
    match chosen {
        Chosen::Token(token) => token,
        Chosen::NonFinite => panic!("logits are finite"),
    }
}

/// One position, two adjacent positions and two choices of a million seeds against the processed distribution.
#[test]
fn a_million_seeds_fit_the_processed_distribution() {
    const SEEDS: u64 = 1_000_000;
    let prompt: [TokenId; 3] = [2, 7, 1];
    let script = Script::seeded(77, VOCAB as u32, 64);
    let first_logits = script.logits(&prompt);
    let second_logits: Vec<Vec<f32>> = (0..VOCAB as u32)
        .map(|token| script.logits(&[&prompt[..], &[token]].concat()))
        .collect();
    for (mix, sampling) in mixes().into_iter().enumerate() {
        let chooser = |seed, choice| {
            let sampling = Sampling {
                seed,
                choice,
                ..sampling.clone()
            };
            Chooser::new(sampling, &prompt)
        };
        let first = softmax(&chooser(0, 0).processed(&first_logits, 2, &[]));
        let second: Vec<Vec<f64>> = (0..VOCAB)
            .map(|i| softmax(&chooser(0, 0).processed(&second_logits[i], 3, &[i as u32])))
            .collect();

        let mut one = [0; VOCAB];
        let mut adjacent = [0; VOCAB * VOCAB];
        let mut choices = [0; VOCAB * VOCAB];
        for seed in 0..SEEDS {
            let a = chooser(seed, 0);
            let i = token(a.choose(&first_logits, 2, &[]));
            let next = token(a.choose(&second_logits[i as usize], 3, &[i]));
            let other = token(chooser(seed, 1).choose(&first_logits, 2, &[]));
            let row = i as usize * VOCAB;
            one[i as usize] += 1;
            adjacent[row + next as usize] += 1;
            choices[row + other as usize] += 1;
        }
        let joint = |given: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
            (0..VOCAB * VOCAB)
                .map(|at| first[at / VOCAB] * given(at / VOCAB, at % VOCAB))
                .collect()
        };
        assert_fits(&one, &first, &format!("mix {mix}, one position"));
        assert_fits(
            &adjacent,
            &joint(&|i, j| second[i][j]),
            &format!("mix {mix}, two adjacent positions"),
        );
        assert_fits(
            &choices,
            &joint(&|_, j| first[j]),
            &format!("mix {mix}, two choices"),
        );
    }
}

#[test]
fn counts_that_do_not_fit_are_found() {
    let unfair = std::panic::catch_unwind(|| assert_fits(&[5100, 4900], &[0.5, 0.5], "a coin"));
    assert!(unfair.is_ok(), "two standard deviations");
    let unfair = std::panic::catch_unwind(|| assert_fits(&[5200, 4800], &[0.5, 0.5], "a coin"));
    assert!(unfair.is_err(), "four standard deviations");
}

fn tokens(
    (ops, model): &mut (ScriptOps, ScriptModel),
    prompt: &[TokenId],
    options: DecodeOptions,
) -> Vec<TokenId> {
    let mut decode = DecodeLoop::new(sequence(0, prompt), options, AbortSignal::new());
    while decode.finish().is_none() {
        block_on(decode.step(ops, model)).unwrap();
    }
    decode.generated().to_vec()
}

#[test]
fn speculation_draws_the_tokens_of_plain_decoding_for_a_hundred_thousand_seeds() {
    const CONTEXT: u32 = 16;
    let prompt: [TokenId; 4] = [1, 5, 2, 1];
    let stop = StopConditions {
        token_ids: Vec::new(),
        max_tokens: 8,
        context: CONTEXT as usize,
    };
    let mut rig = forgetful(3, VOCAB as u32, CONTEXT, 2).rig();
    let mixes = mixes();
    let mut answers: HashMap<Vec<TokenId>, u32> = HashMap::new();
    for seed in 0..100_000u64 {
        let sampling = Sampling {
            seed,
            ..mixes[seed as usize % mixes.len()].clone()
        };
        let options = |drafter: Option<Box<dyn Drafter>>, k| DecodeOptions {
            sampling: sampling.clone(),
            drafter,
            num_speculative_tokens: k,
            ..DecodeOptions::plain(stop.clone())
        };
        let expected = tokens(&mut rig, &prompt, options(None, 0));
        // A drafter that samples by another seed, right to a draft that differs, is as good a guess as any.
        let strategies = [Strategy::Oracle, Strategy::Alternating, Strategy::Random];
        for k in 1..=7 {
            let i = Random(seed * 8 + k as u64).below(5);
            let drafter: Box<dyn Drafter> = if i < 3 {
                let answer = [&prompt[..], &expected].concat();
                Box::new(Puppet::new(strategies[i], answer, VOCAB as u32))
            } else {
                Box::new(NgramDrafter::new(1, i - 2, MatchOrder::Earliest))
            };
            let speculative = tokens(&mut rig, &prompt, options(Some(drafter), k));
            assert_eq!(speculative, expected, "seed {seed}, k {k}");
        }
        *answers.entry(expected).or_default() += 1;
    }
    assert!(answers.len() > 10_000, "only {} answers", answers.len());
}
