//! Adaptive speculation through the loop: it changes what is drafted, never what is answered.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use common::{Random, Run, counting, detailed, endless, naive, random_case, run};
use foretoken_core::{Sampling, TokenId};
use foretoken_decode::drafters::puppet::{Puppet, Strategy};
use foretoken_decode::drafters::{Drafter, MatchOrder, NgramDrafter};
use foretoken_decode::{
    AbortSignal, AcceptanceEstimate, AdaptiveSpeculation, DecodeLoop, DecodeOptions,
    StatisticsLevel, StepCosts, StopConditions, predicted_speedup,
};
use pollster::block_on;

type Costs = Rc<RefCell<StepCosts>>;

const VOCAB: u32 = 64;

/// A drafter that sets the costs anew after every step, whatever was measured.
struct SettingCosts<F> {
    drafter: Box<dyn Drafter>,
    costs: Costs,
    anew: F,
    /// Calls of `propose`, and tokens committed.
    seen: Rc<RefCell<(usize, usize)>>,
}

impl<F> std::fmt::Debug for SettingCosts<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.drafter.fmt(f)
    }
}

impl<F: FnMut() -> StepCosts> Drafter for SettingCosts<F> {
    fn name(&self) -> &'static str {
        self.drafter.name()
    }

    fn start(&mut self, prompt: &[TokenId]) {
        self.drafter.start(prompt);
    }

    fn committed(&mut self, tokens: &[TokenId]) {
        self.drafter.committed(tokens);
        self.seen.borrow_mut().1 += tokens.len();
        *self.costs.borrow_mut() = (self.anew)();
    }

    fn propose(&mut self, k: usize) -> Vec<TokenId> {
        assert!((1..=15).contains(&k), "asked for {k}");
        self.seen.borrow_mut().0 += 1;
        self.drafter.propose(k)
    }
}

/// Costs by chance: sensible, senseless, or at the ends of what a number holds.
fn random_costs(random: &mut Random) -> StepCosts {
    let extremes = [1e-300, 1e-6, 0.1, 1.0, 30.0, 1e4, 1e300, f64::MAX, 0.0];
    loop {
        let sensible = random.below(2) == 0;
        let passes: Vec<(usize, f64)> = (0..1 + random.below(8))
            .map(|_| {
                let rows = 1 + random.below(16);
                let ms = if sensible {
                    10.0 + 0.1 * (random.below(8) * rows) as f64
                } else {
                    random.pick(&extremes)
                };
                (rows, ms)
            })
            .collect();
        let draft_ms = random.pick(&[0.0, 0.0, 0.01, 1.0, 1e300]);
        if let Some(costs) = StepCosts::from_measured(&passes) {
            return costs.with_draft_ms(draft_ms);
        }
    }
}

fn random_estimate(random: &mut Random) -> AcceptanceEstimate {
    let given: Vec<f64> = (0..random.below(16))
        .map(|_| random.pick(&[0.0, 0.1, 0.5, 0.9, 1.0]))
        .collect();
    AcceptanceEstimate::from_probabilities(&given)
}

#[test]
fn adaptive_equals_fixed_equals_plain_whatever_the_costs() {
    let (mut steps, mut varied) = (0, 0);
    for case in 0..2000 {
        let mut random = Random(case);
        let c = random_case(&mut random);
        let k = 1 + (case / 10 % 15) as usize;
        let expected = naive(&c.script, &c.prompt, &c.sampling, &c.stop, 3);
        let beyond = naive(&c.script, &c.prompt, &c.sampling, &endless(c.context), 0);
        let answer: Vec<TokenId> = c.prompt.iter().copied().chain(beyond.tokens).collect();
        let drafter = || -> Box<dyn Drafter> {
            match case % 10 {
                8 => Box::new(NgramDrafter::new(1, 3, MatchOrder::Earliest)),
                9 => Box::new(NgramDrafter::new(2, 2, MatchOrder::Latest)),
                i => Box::new(Puppet::new(
                    Strategy::all(c.vocab - 1)[i as usize],
                    answer.clone(),
                    c.vocab,
                )),
            }
        };
        let mut rig = c.script.rig();
        let costs = Rc::new(RefCell::new(random_costs(&mut random)));
        let estimate = random_estimate(&mut random);
        let mut options = detailed(&c.sampling, &c.stop, Some(drafter()), k);
        options.adaptive = Some(AdaptiveSpeculation::new(costs.clone(), estimate));
        // In half of the cases costs are also what steps make of them.
        if case % 2 == 0 {
            options.drafter = Some(Box::new(SettingCosts {
                drafter: drafter(),
                costs: costs.clone(),
                anew: move || random_costs(&mut random),
                seen: Rc::default(),
            }));
        }
        let adaptive = run(&mut rig, &c.prompt, options).unwrap();
        assert_eq!(adaptive.answer, expected, "case {case}, k {k}: {c:?}");

        let options = detailed(&c.sampling, &c.stop, Some(drafter()), k);
        let fixed = run(&mut rig, &c.prompt, options).unwrap();
        assert_eq!(fixed.answer, expected, "case {case}, fixed k {k}: {c:?}");
        let plain = detailed(&c.sampling, &c.stop, None, k);
        let plain = run(&mut rig, &c.prompt, plain).unwrap();
        assert_eq!(plain.answer, expected, "case {case}, plain: {c:?}");
        assert_eq!(plain.sequence, adaptive.sequence);

        steps += adaptive.statistics.num_spec_steps;
        let (a, f) = (adaptive.statistics, fixed.statistics);
        varied += usize::from(a.per_step_drafted != f.per_step_drafted);
    }
    assert!(
        steps > 3000 && varied > 500,
        "{steps} verifying steps; {varied} of 2000 cases drafted otherwise than with fixed k"
    );
}

/// Runs the counting script with these true costs, however long its passes take here. Returns the calls of `propose`
/// too, and what was learnt.
fn with_costs(strategy: Strategy, truth: &StepCosts, k: usize, tokens: usize) -> (Run, usize) {
    let context = tokens as u32 + 1000;
    let answer = (5..5 + context).map(|token| token % VOCAB).collect();
    let costs = Rc::new(RefCell::new(truth.clone()));
    let seen = Rc::new(RefCell::new((0, 0)));
    let drafter = SettingCosts {
        drafter: Box::new(Puppet::new(strategy, answer, VOCAB)),
        costs: costs.clone(),
        anew: {
            let truth = truth.clone();
            move || truth.clone()
        },
        seen: seen.clone(),
    };
    let stop = StopConditions {
        max_tokens: 1 + tokens,
        ..endless(context)
    };
    let mut options = detailed(&Sampling::greedy(), &stop, Some(Box::new(drafter)), k);
    options.adaptive = Some(AdaptiveSpeculation::new(
        costs,
        AcceptanceEstimate::default(),
    ));
    let run = run(&mut counting(VOCAB, context).rig(), &[5, 6, 7], options).unwrap();
    let (proposals, committed) = *seen.borrow();
    assert_eq!(committed, run.answer.tokens.len(), "told of every token");
    (run, proposals)
}

/// T(rows) = 10 for one row and 14 for more.
fn step_up() -> StepCosts {
    let mut passes = vec![(1, 10.0)];
    passes.extend((2..=16).map(|rows| (rows, 14.0)));
    StepCosts::from_measured(&passes).unwrap()
}

#[test]
fn five_hundred_steps_of_wrong_drafts_cost_at_most_three_percent() {
    for k in [1, 4, 8, 15] {
        let (run, proposals) = with_costs(Strategy::Wrong, &step_up(), k, 500);
        let s = &run.statistics;
        assert_eq!(s.num_accepted_draft_tokens, 0);
        assert_eq!(s.plain_steps + s.num_spec_steps, 500);
        // Steps that do not draft do not ask for drafts.
        assert_eq!(proposals as u64, s.num_spec_steps);
        let pass = |drafted: &u64| step_up().pass_ms(*drafted as usize + 1);
        let sum: f64 = s.per_step_drafted.iter().map(pass).sum();
        let sum = sum + s.plain_steps as f64 * 10.0;
        assert!(sum > 5000.0, "it did try");
        assert!(sum <= 1.03 * 5000.0, "{}", sum / 5000.0);
        let mut statistics = s.clone();
        statistics.draft_time_ms = 0.0;
        let speedup = predicted_speedup(500, &statistics, &step_up()).unwrap();
        assert!((speedup - 5000.0 / sum).abs() < 1e-9);
    }
}

#[test]
fn an_oracle_drafts_the_ceiling() {
    let flat = StepCosts::from_measured(&[(1, 10.0)]).unwrap();
    let (run, _) = with_costs(Strategy::Oracle, &flat, 7, 400);
    assert!(run.statistics.per_step_drafted.iter().all(|d| *d == 7));
    // Where a second row costs as much as the first, even an oracle is not asked much.
    let steep = StepCosts::from_measured(&[(1, 10.0), (2, 20.0)]).unwrap();
    let (run, proposals) = with_costs(Strategy::Oracle, &steep, 7, 400);
    assert_eq!((run.statistics.plain_steps, proposals), (400, 0));
}

#[test]
fn a_drafter_without_a_guess_costs_and_teaches_nothing() {
    let costs: Costs = Rc::new(RefCell::new(
        StepCosts::from_measured(&[(1, 10.0)]).unwrap(),
    ));
    let empty = Puppet::new(Strategy::Empty, Vec::new(), VOCAB);
    let options = DecodeOptions {
        drafter: Some(Box::new(empty)),
        num_speculative_tokens: 5,
        adaptive: Some(AdaptiveSpeculation::new(
            costs.clone(),
            AcceptanceEstimate::default(),
        )),
        statistics: StatisticsLevel::Summary,
        ..DecodeOptions::plain(endless(100))
    };
    let (mut ops, model) = counting(VOCAB, 100).rig();
    let prompt = common::sequence(0, &[5, 6, 7]);
    let mut decode = DecodeLoop::new(prompt, options, AbortSignal::new());
    while decode.finish().is_none() {
        block_on(decode.step(&mut ops, &model)).unwrap();
    }
    let untaught = AcceptanceEstimate::default();
    assert_eq!(decode.acceptance_estimates().next(), Some(&untaught));
    assert_eq!(costs.borrow().draft_ms(), 0.0);
    // But steps were timed: a script's take less than 10 ms. The statistics did not ask for times.
    assert!(costs.borrow().pass_ms(1) < 10.0);
    let statistics = decode.statistics().unwrap();
    assert_eq!(
        (statistics.verify_time_ms, statistics.sync_time_ms),
        (0.0, 0.0)
    );
}
