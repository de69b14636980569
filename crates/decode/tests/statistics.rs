//! The worked cases of acceptance, through the loop.

mod common;

use common::{Run, counting, detailed, endless, run, sequence};
use foretoken_core::{Sampling, TokenId};
use foretoken_decode::drafters::puppet::{Puppet, Strategy};
use foretoken_decode::{
    AbortSignal, AcceptanceStatistics, AggregateCounters, DecodeLoop, DecodeOptions, Drafter,
    FinishReason, StatisticsLevel, StopConditions, TokenProvenance,
};
use pollster::block_on;

const VOCAB: u32 = 64;
const CONTEXT: u32 = 256;

/// Drafts, step by step, so many tokens of which the first so many are right; the model counts.
#[derive(Debug)]
struct Planned {
    plan: Vec<(usize, usize)>,
    step: usize,
    last: TokenId,
}

impl Planned {
    fn new(plan: &[(usize, usize)]) -> Box<Self> {
        Box::new(Self {
            plan: plan.to_vec(),
            step: 0,
            last: 0,
        })
    }
}

impl Drafter for Planned {
    fn name(&self) -> &'static str {
        "planned"
    }

    fn start(&mut self, _: &[TokenId]) {}

    fn committed(&mut self, tokens: &[TokenId]) {
        self.last = *tokens.last().unwrap();
    }

    fn propose(&mut self, _: usize) -> Vec<TokenId> {
        let (drafted, accepted) = self.plan.get(self.step).copied().unwrap_or((0, 0));
        self.step += 1;
        (0..drafted)
            .map(|i| (self.last + 1 + i as u32 + u32::from(i >= accepted)) % VOCAB)
            .collect()
    }
}

/// Runs as long as the plan says.
fn planned(k: usize, plan: &[(usize, usize)]) -> Run {
    let emitted: usize = plan.iter().map(|(_, accepted)| accepted + 1).sum();
    let stop = StopConditions {
        max_tokens: 1 + emitted,
        ..endless(CONTEXT)
    };
    let options = detailed(&Sampling::greedy(), &stop, Some(Planned::new(plan)), k);
    let run = run(&mut counting(VOCAB, CONTEXT).rig(), &[0], options).unwrap();
    assert_eq!(
        run.answer.tokens,
        (1..=1 + emitted as u32)
            .map(|token| token % VOCAB)
            .collect::<Vec<_>>()
    );
    run
}

fn by_length(s: &AcceptanceStatistics) -> Vec<(usize, Vec<u64>)> {
    s.acceptance_histogram_by_draft_length
        .clone()
        .into_iter()
        .collect()
}

#[test]
fn case_1_forty_three_steps_of_three() {
    let mut plan = vec![(3, 0); 39];
    plan.extend([(3, 1), (3, 3), (3, 3), (3, 3)]);
    let s = planned(3, &plan).statistics;
    assert_eq!(s.num_spec_tokens, 3);
    assert_eq!(s.num_spec_steps, 43);
    assert_eq!(s.num_draft_tokens, 129);
    assert_eq!(s.num_accepted_draft_tokens, 10);
    assert_eq!(s.acceptance_histogram, [39, 1, 0, 3]);
    assert_eq!(by_length(&s), [(3, vec![39, 1, 0, 3])]);
    // To the last digit, as JSON prints it.
    let text = serde_json::to_string(&s.mean_acceptance_length()).unwrap();
    assert_eq!(text, "1.2325581395348837");
    let text = serde_json::to_string(&s.draft_acceptance_rate()).unwrap();
    assert_eq!(text, "0.07751937984496124");
    assert_eq!((s.plain_steps, s.emitted_from_drafts), (0, 10));
}

#[test]
fn case_2_steps_of_different_lengths() {
    let s = planned(4, &[(4, 4), (2, 0), (1, 1), (4, 2)]).statistics;
    assert_eq!(
        (
            s.num_spec_steps,
            s.num_draft_tokens,
            s.num_accepted_draft_tokens
        ),
        (4, 11, 7)
    );
    assert_eq!(s.acceptance_histogram, [1, 1, 1, 0, 1]);
    assert_eq!(
        by_length(&s),
        [
            (1, vec![0, 1]),
            (2, vec![1, 0, 0]),
            (4, vec![0, 0, 1, 0, 1])
        ]
    );
    assert_eq!(s.mean_acceptance_length(), 2.75);
    assert_eq!(s.draft_acceptance_rate(), 7.0 / 11.0);
    assert_eq!(s.per_step_accepted, [4, 0, 1, 2]);
    assert_eq!(s.per_step_drafted, [4, 2, 1, 4]);
}

#[test]
fn case_3_nothing_ever_drafted() {
    let s = planned(3, &[(0, 0); 12]).statistics;
    assert_eq!(s.num_spec_steps, 0);
    assert_eq!(s.acceptance_histogram, [0; 4]);
    assert_eq!(by_length(&s), []);
    assert_eq!(
        (s.mean_acceptance_length(), s.draft_acceptance_rate()),
        (1.0, 0.0)
    );
    assert_eq!(s.plain_steps, 12);
}

#[test]
fn case_4_speculation_off() {
    let stop = StopConditions {
        max_tokens: 9,
        ..endless(CONTEXT)
    };
    let options = detailed(&Sampling::greedy(), &stop, None, 7);
    let run = run(&mut counting(VOCAB, CONTEXT).rig(), &[0], options).unwrap();
    assert_eq!(run.statistics.num_spec_tokens, 0);
    assert_eq!(
        (run.statistics.num_spec_steps, run.statistics.plain_steps),
        (0, 8)
    );
    assert_eq!(run.provenance[1..], [TokenProvenance::Plain; 8]);
    assert_eq!(run.counters, AggregateCounters::default());
}

#[test]
fn case_5_two_choices_move_the_totals_at_any_level() {
    let (mut ops, model) = counting(VOCAB, CONTEXT).rig();
    let mut totals = AggregateCounters::default();
    for choice in 0..2 {
        let options = DecodeOptions {
            sampling: Sampling {
                choice,
                ..Sampling::greedy()
            },
            drafter: Some(Planned::new(&[(3, 3), (2, 1)])),
            num_speculative_tokens: 3,
            ..DecodeOptions::plain(StopConditions {
                max_tokens: 7,
                ..endless(CONTEXT)
            })
        };
        let mut decode = DecodeLoop::new(sequence(0, &[0]), options, AbortSignal::new());
        while decode.finish().is_none() {
            block_on(decode.step(&mut ops, &model)).unwrap();
            totals += decode.take_counters();
        }
        assert!(decode.statistics().is_none());
    }
    let mut accepted_per_pos = [0; 15];
    accepted_per_pos[..3].copy_from_slice(&[4, 2, 2]);
    assert_eq!(
        totals,
        AggregateCounters {
            num_drafts: 4,
            num_draft_tokens: 10,
            num_accepted_tokens: 8,
            accepted_per_pos,
        }
    );
}

#[test]
fn case_6_the_end_is_the_second_of_three_accepted_drafts() {
    let stop = StopConditions {
        token_ids: vec![6],
        ..endless(CONTEXT)
    };
    let plan = Planned::new(&[(3, 2), (3, 3)]);
    let options = detailed(&Sampling::greedy(), &stop, Some(plan), 3);
    let run = run(&mut counting(VOCAB, CONTEXT).rig(), &[0], options).unwrap();
    assert_eq!(run.answer.tokens, [1, 2, 3, 4, 5, 6]);
    assert_eq!(run.answer.finish, FinishReason::Stop);
    assert_eq!(run.statistics.acceptance_histogram, [0, 0, 1, 1]);
    assert_eq!(run.statistics.per_step_accepted, [2, 3]);
    assert_eq!(run.statistics.emitted_from_drafts, 4);
    use TokenProvenance::{Draft, Prefill, Recovered};
    assert_eq!(
        run.provenance,
        [Prefill, Draft, Draft, Recovered, Draft, Draft]
    );
}

#[test]
fn drafts_cut_before_verification_are_proposed_but_not_drafted() {
    let stop = StopConditions {
        max_tokens: 20,
        ..endless(CONTEXT)
    };
    let longest = Puppet::new(Strategy::Longest, (0..60).collect(), VOCAB);
    let options = detailed(&Sampling::greedy(), &stop, Some(Box::new(longest)), 4);
    let s = run(&mut counting(VOCAB, CONTEXT).rig(), &[0], options)
        .unwrap()
        .statistics;
    assert_eq!(s.num_spec_steps, 4);
    assert_eq!((s.num_proposed_tokens, s.num_draft_tokens), (4 * 11, 16));
    assert_eq!(s.draft_acceptance_rate(), 1.0);

    let junk = Puppet::new(Strategy::Spam(VOCAB), Vec::new(), VOCAB);
    let options = detailed(&Sampling::greedy(), &stop, Some(Box::new(junk)), 4);
    let s = run(&mut counting(VOCAB, CONTEXT).rig(), &[0], options)
        .unwrap()
        .statistics;
    assert_eq!((s.num_proposed_tokens, s.num_draft_tokens), (19 * 4, 0));
    assert_eq!((s.num_spec_steps, s.plain_steps), (0, 19));
}

#[test]
fn a_summary_keeps_no_steps_and_no_times() {
    for (level, kept) in [
        (StatisticsLevel::Summary, 0),
        (StatisticsLevel::Detailed, 2),
    ] {
        let (mut ops, model) = counting(VOCAB, CONTEXT).rig();
        let options = DecodeOptions {
            statistics: level,
            drafter: Some(Planned::new(&[(3, 3), (2, 1)])),
            num_speculative_tokens: 3,
            ..DecodeOptions::plain(StopConditions {
                max_tokens: 7,
                ..endless(CONTEXT)
            })
        };
        let mut decode = DecodeLoop::new(sequence(0, &[0]), options, AbortSignal::new());
        while decode.finish().is_none() {
            block_on(decode.step(&mut ops, &model)).unwrap();
        }
        let s = decode.statistics().unwrap();
        assert_eq!(s.acceptance_histogram, [0, 1, 0, 1]);
        assert_eq!(
            (s.per_step_accepted.len(), s.per_step_drafted.len()),
            (kept, kept)
        );
        assert_eq!(s.verify_time_ms > 0.0, kept > 0);
    }
}
