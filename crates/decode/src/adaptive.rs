//! How many tokens a step drafts: as many as pay.
//!
//! A pass of `k + 1` rows and its draft take a time that was measured, and yield a number of tokens that can be
//! expected from what was accepted before. Each step takes the k with the most expected tokens a second, 0 where none
//! beats plain decoding. None of this can change an answer: it only says how much is guessed, and the target chooses
//! the same tokens whatever was guessed.

mod acceptance;
mod confidence;
mod step_costs;

use std::cell::RefCell;
use std::rc::Rc;

pub use acceptance::AcceptanceEstimate;
pub use confidence::ConfidenceEstimate;
pub use step_costs::StepCosts;

use crate::{AcceptanceStatistics, StatisticsLevel};

/// Steps without a draft before one is tried again, at first.
const FIRST_PROBE_INTERVAL: usize = 8;

/// The most steps without a draft before one is tried again. The interval doubles while probes fail, up to this times
/// what a probe costs beside a plain step: so probes take no more than 1/128 of the time for long, and where they are
/// cheap, text that can be guessed is soon found again.
const LAST_PROBE_INTERVAL: usize = 128;

/// Drafts of a probe: the fewest that say anything, since most probes fail.
const PROBE_DRAFTS: usize = 1;

/// Probes one after another, each of which succeeded, that keep another way of drafting waiting: by then the averages know.
const MOST_PROBES_IN_A_ROW: usize = 12;

/// A number of drafts, and what it is expected to bring.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Expected {
    /// Drafts.
    pub(crate) k: usize,
    /// Tokens a millisecond.
    pub(crate) rate: f64,
}

/// The number of drafts, of `0..=ceiling`, with the most expected tokens a second; the least of several.
///
/// With `α_j` the probability that draft j is accepted once those before it were, k drafts yield
/// `E(k) = 1 + Σ_{i ≤ k} Π_{j ≤ i} α_j` tokens in the time of a pass of `k + 1` rows and of drafting k tokens.
/// A ceiling above 15 is taken as 15.
pub fn choose_k(ceiling: usize, costs: &StepCosts, estimate: &AcceptanceEstimate) -> usize {
    best(ceiling, costs, estimate).k
}

fn best(ceiling: usize, costs: &StepCosts, estimate: &AcceptanceEstimate) -> Expected {
    let mut best = Expected {
        k: 0,
        rate: 1.0 / costs.step_ms(0),
    };
    let (mut expected, mut all_accepted) = (1.0, 1.0);
    for (i, probability) in estimate.probabilities().iter().take(ceiling).enumerate() {
        all_accepted *= probability;
        expected += all_accepted;
        let rate = expected / costs.step_ms(i + 1);
        if rate > best.rate {
            best = Expected { k: i + 1, rate };
        }
    }
    best
}

/// What one answer knows to choose how many tokens a step drafts.
///
/// Where drafting does not pay, a single draft is tried again after 8 steps, and after twice as many each time while
/// that fails, up to 128, or fewer where that keeps probes to 1/128 of the time; a success starts over with 8. It is
/// not tried where a step with one draft costs twice a plain one or more. So an answer of 500 steps in which nothing is
/// accepted costs at most 3 % more than plain decoding.
#[derive(Debug, Clone)]
pub struct AdaptiveSpeculation {
    costs: Rc<RefCell<StepCosts>>,
    estimate: AcceptanceEstimate,
    /// How far the draft model's own confidence can be trusted; absent: it is not asked.
    confidence: Option<Rc<RefCell<ConfidenceEstimate>>>,
    /// Steps that chose not to draft since drafts were last verified.
    waited: usize,
    /// How many of them are followed by a probe.
    interval: usize,
    /// Whether the latest choice was a probe.
    probing: bool,
    /// Probes one after another that kept another way of drafting waiting.
    in_a_row: usize,
}

impl AdaptiveSpeculation {
    /// Starts an answer from `estimate`. The costs are those of a device and model: every answer on them shares, reads
    /// and updates one.
    pub fn new(costs: Rc<RefCell<StepCosts>>, estimate: AcceptanceEstimate) -> Self {
        Self {
            costs,
            estimate,
            confidence: None,
            waited: 0,
            interval: FIRST_PROBE_INTERVAL,
            probing: false,
            in_a_row: 0,
        }
    }

    /// Ends drafts of a draft model where its own confidence says that the rest will not survive. What is learnt of that is a
    /// model's: every answer shares it.
    pub fn with_confidence(mut self, confidence: Rc<RefCell<ConfidenceEstimate>>) -> Self {
        self.confidence = Some(confidence);
        self
    }

    /// What was learnt of acceptance so far.
    pub fn estimate(&self) -> &AcceptanceEstimate {
        &self.estimate
    }

    /// How many tokens the next step drafts, `0..=ceiling`.
    pub(crate) fn next_k(&mut self, ceiling: usize) -> usize {
        self.next_k_beside(ceiling, None)
    }

    /// The same beside another way to draft that brings `rival` tokens a millisecond: 0 where that is more. Nothing is learnt of what is
    /// not drafted, so now and then it is tried all the same, as rarely as can be, and again at once while that succeeds, until the
    /// averages know.
    pub(crate) fn next_k_beside(&mut self, ceiling: usize, rival: Option<f64>) -> usize {
        let costs = self.costs.borrow();
        let Expected { k, rate } = best(ceiling, &costs, &self.estimate);
        self.probing = false;
        if ceiling == 0 || (k > 0 && rival.is_none_or(|rival| rate > rival)) {
            self.in_a_row = 0;
            return k;
        }
        self.waited = self.waited.saturating_add(1);
        let k = k.max(PROBE_DRAFTS);
        let extra = costs.step_ms(PROBE_DRAFTS) / costs.step_ms(0) - 1.0;
        // Twice the cost for at most twice the tokens is never worth a try.
        let bearable = extra < 1.0;
        // `as` saturates.
        let enough = (LAST_PROBE_INTERVAL as f64 * extra).ceil() as usize;
        let interval = match rival {
            Some(_) => LAST_PROBE_INTERVAL,
            None => self.interval.min(enough.max(FIRST_PROBE_INTERVAL)),
        };
        self.probing = bearable && self.waited >= interval;
        if !self.probing {
            self.in_a_row = 0;
            return 0;
        }
        self.in_a_row += usize::from(rival.is_some());
        k
    }

    /// What the best number of drafts up to `ceiling` is expected to bring.
    pub(crate) fn expected(&self, ceiling: usize) -> Expected {
        best(ceiling, &self.costs.borrow(), &self.estimate)
    }

    /// ln of the least probability, by the draft model itself, that the tokens of a draft of up to `k` are right together: below it, a
    /// token more costs more than it brings. `None`: there is no such bound.
    pub(crate) fn least_log_confidence(&self, k: usize) -> Option<f32> {
        let confidence = self.confidence.as_ref()?.borrow();
        let behind_first = self.estimate.probabilities().get(1..k).unwrap_or_default();
        if behind_first.is_empty() {
            return Some(f32::MIN);
        }
        // At the rate of the whole, a draft more takes the time of so many tokens; it brings one where those before it are right and
        // then it is. Its row is paid for: the pass that verifies is recorded before anybody knows how long the draft is.
        let tokens = self.expected(k).rate * self.costs.borrow().draft_ms();
        let right = behind_first.iter().sum::<f64>() / behind_first.len() as f64;
        Some(confidence.least_log_confidence(tokens / right))
    }

    /// Takes note of a draft's confidences, and how many of its tokens were accepted.
    pub(crate) fn record_confidence(&self, log_confidences: &[f32], accepted: usize) {
        if let Some(confidence) = &self.confidence {
            confidence.borrow_mut().record(log_confidences, accepted);
        }
    }

    /// Takes note of the time of a pass of `rows` rows.
    pub(crate) fn record_pass(&self, rows: usize, ms: f64) {
        self.costs.borrow_mut().record_pass(rows, ms);
    }

    /// How many tokens a step drafts whose outcome is known only after further steps began, and whether it is a probe. A
    /// probe that is under way is not due.
    pub(crate) fn next_k_in_flight(&mut self, ceiling: usize) -> (usize, bool) {
        let k = self.next_k(ceiling);
        if self.probing {
            self.waited = 0;
        }
        (k, self.probing)
    }

    /// Takes note of the time it took to propose `proposed` tokens.
    pub(crate) fn record_draft(&self, proposed: usize, ms: f64) {
        self.costs.borrow_mut().record_draft(proposed, ms);
    }

    /// Takes note of a pass that verified `drafted` drafts, none perhaps, and accepted the first `accepted`.
    pub(crate) fn record_step(&mut self, drafted: usize, accepted: usize, pass_ms: f64) {
        self.record_pass(drafted + 1, pass_ms);
        let probe = self.probing;
        self.record_acceptance(drafted, accepted, probe);
    }

    /// Takes note of a step whose drafts and pass were one submission of `step_ms`, recorded for `k` drafts: `proposed` tokens were
    /// chosen and the first `accepted` accepted. What it took is shared out as was expected; returns the pass's part.
    pub(crate) fn record_whole_step(
        &mut self,
        k: usize,
        proposed: usize,
        accepted: usize,
        step_ms: f64,
    ) -> f64 {
        let probe = self.probing;
        // One that the target does not have was paid for and brought nothing.
        self.record_acceptance(proposed, accepted, probe);
        let mut costs = self.costs.borrow_mut();
        // A pass costs as much as the rows that it was recorded for, however many of them it has.
        let (pass_ms, draft_ms) = (costs.pass_ms(k + 1), costs.draft_ms());
        let part = step_ms / (pass_ms + proposed as f64 * draft_ms);
        costs.record_pass(k + 1, part * pass_ms);
        costs.record_draft(proposed, part * draft_ms * proposed as f64);
        part * pass_ms
    }

    /// Takes note of a pass whose time nobody knows, since others were under way with it.
    ///
    /// `probe`: whether it was one.
    pub(crate) fn record_acceptance(&mut self, drafted: usize, accepted: usize, probe: bool) {
        if drafted == 0 {
            // A probe for which the drafter had no guess cost nothing, and stays due.
            return;
        }
        self.estimate.record_step(drafted, accepted);
        if accepted > 0 {
            self.interval = FIRST_PROBE_INTERVAL;
            // Should drafting still not pay by the averages, the next step probes again.
            self.waited = match self.in_a_row < MOST_PROBES_IN_A_ROW {
                true => LAST_PROBE_INTERVAL,
                false => 0,
            };
        } else {
            if probe {
                self.interval = (self.interval * 2).min(LAST_PROBE_INTERVAL);
            }
            self.waited = 0;
        }
    }
}

/// How many times as fast as plain decoding an answer should have been by the costs of its steps:
/// `emitted · T(1) / Σ over steps of (T(rows) + draft time)`.
///
/// `rows`: those that a step's pass was recorded for, on the device's own drafts perhaps more than there were.
/// `emitted`: tokens of the answer after the first, which is the prompt's pass's. The drafter's time is the measured
/// one where it was measured, at [`StatisticsLevel::Detailed`], and else the costs' estimate. That of a draft model's passes nobody
/// measures: each takes what the costs say of a token, whether the other steps had no drafts or those of a drafter on the host.
/// `None` without steps.
pub fn predicted_speedup(
    emitted: u64,
    statistics: &AcceptanceStatistics,
    costs: &StepCosts,
) -> Option<f64> {
    if statistics.passes_by_rows.is_empty() {
        return None;
    }
    let verifying: f64 = statistics
        .passes_by_rows
        .iter()
        .map(|(rows, passes)| *passes as f64 * costs.pass_ms(*rows))
        .sum();
    let passes = statistics.num_draft_passes as f64 * costs.draft_ms();
    let drafting = match statistics.level() {
        StatisticsLevel::Detailed => passes + statistics.draft_time_ms,
        _ if statistics.num_draft_passes > 0 => passes,
        _ => statistics.num_proposed_tokens as f64 * costs.draft_ms(),
    };
    Some(emitted as f64 * costs.pass_ms(1) / (verifying + drafting))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_SPECULATIVE_TOKENS;

    /// Costs with T(rows) as given for 1 to 16 rows.
    fn costs(pass_ms: impl Fn(usize) -> f64) -> StepCosts {
        let measured: Vec<_> = (1..=16).map(|rows| (rows, pass_ms(rows))).collect();
        StepCosts::from_measured(&measured).unwrap()
    }

    fn shared(costs: StepCosts) -> Rc<RefCell<StepCosts>> {
        Rc::new(RefCell::new(costs))
    }

    fn random(state: &mut u64) -> f64 {
        *state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (*state >> 33) as f64 / f64::from(1u32 << 31)
    }

    /// Expected tokens by the distribution of the number accepted, not by the sum of products.
    fn expected_tokens(k: usize, alpha: &[f64]) -> f64 {
        (0..=k)
            .map(|accepted| {
                let reached: f64 = alpha[..accepted].iter().product();
                let stops = if accepted == k {
                    1.0
                } else {
                    1.0 - alpha[accepted]
                };
                (accepted + 1) as f64 * reached * stops
            })
            .sum()
    }

    /// Tokens a millisecond for every k.
    fn rates(ceiling: usize, costs: &StepCosts, draft_ms: f64, alpha: &[f64]) -> Vec<f64> {
        (0..=ceiling)
            .map(|k| expected_tokens(k, alpha) / (costs.pass_ms(k + 1) + k as f64 * draft_ms))
            .collect()
    }

    #[test]
    fn equals_brute_force() {
        let mut state = 7;
        let mut chosen = [0; MAX_SPECULATIVE_TOKENS + 1];
        for case in 0..3000 {
            let (slope, bend) = (0.5 * random(&mut state).powi(3), random(&mut state).powi(4));
            let draft_ms = [0.0, 0.5 * random(&mut state)][case % 2];
            let power = [1, 2, 4, 20][case / 16 % 4];
            let costs = costs(|rows| {
                10.0 * (1.0 + slope * (rows - 1) as f64) + bend * rows.saturating_sub(4) as f64
            })
            .with_draft_ms(draft_ms);
            let alpha: Vec<f64> = (0..15)
                .map(|_| 1.0 - random(&mut state).powi(power))
                .collect();
            let estimate = AcceptanceEstimate::from_probabilities(&alpha);
            let ceiling = case % 16;
            let rates = rates(ceiling, &costs, draft_ms, &alpha);
            let best = (0..=ceiling)
                .reduce(|a, b| if rates[b] > rates[a] { b } else { a })
                .unwrap();
            let k = choose_k(ceiling, &costs, &estimate);
            assert!(
                rates[k] >= rates[best] * (1.0 - 1e-12),
                "case {case}: {k}, not {best}, of {rates:?}"
            );
            chosen[k] += 1;
        }
        assert!(chosen.iter().all(|n| *n > 20), "every k occurs: {chosen:?}");
    }

    #[test]
    fn worked_cases() {
        let half = AcceptanceEstimate::from_probabilities(&[0.5; 15]);
        // T(rows) = 1 + 0.1 (rows - 1): 1/1, 1.5/1.1, 1.75/1.2, 1.875/1.3, 1.9375/1.4.
        let linear = costs(|rows| 0.9 + 0.1 * rows as f64);
        assert_eq!(choose_k(15, &linear, &half), 2);
        assert_eq!(choose_k(1, &linear, &half), 1);
        assert_eq!(choose_k(0, &linear, &half), 0);
        // A row more costs as much as a pass.
        assert_eq!(choose_k(15, &costs(|rows| rows as f64), &half), 0);
        // Rows for nothing: all of them, unless none is ever accepted.
        let flat = costs(|_| 3.0);
        assert_eq!(choose_k(15, &flat, &half), 15);
        assert_eq!(choose_k(99, &flat, &half), 15);
        let never = AcceptanceEstimate::from_probabilities(&[0.0; 15]);
        assert_eq!(choose_k(15, &flat, &never), 0);
        // A draft that costs as much as what it saves.
        assert_eq!(choose_k(15, &flat.with_draft_ms(3.0), &half), 0);
    }

    #[test]
    fn probes_whose_outcome_comes_sixteen_steps_later_are_as_rare() {
        for extra in [0.1, 0.5, 0.9] {
            let truth = costs(|rows| 1.0 + extra * (rows - 1) as f64);
            let never = AcceptanceEstimate::from_probabilities(&[0.0; 15]);
            let mut adaptive = AdaptiveSpeculation::new(shared(truth.clone()), never);
            let mut under_way = std::collections::VecDeque::new();
            let (mut spent, mut probes) = (0.0, 0);
            for _ in 0..500 {
                let (k, probe) = adaptive.next_k_in_flight(5);
                spent += truth.pass_ms(k + 1);
                probes += usize::from(probe);
                under_way.push_back((k, probe));
                if under_way.len() == 16
                    && let Some((k, probe)) = under_way.pop_front()
                {
                    adaptive.record_acceptance(k, 0, probe);
                }
            }
            assert!(probes > 3, "{extra}: {probes} probes");
            assert!(spent < 1.03 * 500.0, "{extra}: {spent}");
        }
    }

    /// Steps through `steps` steps of a drafter of which the model accepts what `accepts` says; the sum of
    /// T(rows) and draft time, and the k of each step.
    fn simulate(
        truth: &StepCosts,
        ceiling: usize,
        steps: usize,
        accepts: impl Fn(usize, usize) -> usize,
    ) -> (f64, Vec<usize>) {
        let mut adaptive =
            AdaptiveSpeculation::new(shared(truth.clone()), AcceptanceEstimate::default());
        let mut sum = 0.0;
        let ks = (0..steps)
            .map(|step| {
                let k = adaptive.next_k(ceiling);
                sum += truth.step_ms(k);
                adaptive.record_step(k, accepts(step, k), truth.pass_ms(k + 1));
                k
            })
            .collect();
        (sum, ks)
    }

    #[test]
    fn where_nothing_is_accepted_it_costs_at_most_three_percent() {
        let (sum, ks) = simulate(
            &costs(|rows| if rows == 1 { 10.0 } else { 14.0 }),
            15,
            500,
            |_, _| 0,
        );
        assert!(ks[0] > 0, "the first step drafts");
        assert!(sum <= 1.03 * 500.0 * 10.0, "{}", sum / 5000.0);
        // Whatever the device: any cost of a second row, of those after it, and of drafting.
        let mut worst: f64 = 1.0;
        for second in 0..60 {
            for slope in [0.0, 0.02, 0.1, 0.3, 1.0] {
                for draft_ms in [0.0, 0.1, 1.0] {
                    let truth = costs(|rows| match rows {
                        1 => 10.0,
                        _ => 10.0 + f64::from(second) + 10.0 * slope * (rows - 2) as f64,
                    })
                    .with_draft_ms(draft_ms);
                    for ceiling in [1, 2, 4, 8, 15] {
                        let (sum, _) = simulate(&truth, ceiling, 500, |_, _| 0);
                        worst = worst.max(sum / 5000.0);
                    }
                }
            }
        }
        assert!((1.005..=1.03).contains(&worst), "{worst}");
    }

    #[test]
    fn noise_and_wrong_measurements_at_load_do_not_break_the_bound() {
        for seed in 0..50 {
            for second in [10.2, 10.6, 11.5, 13.0, 16.0, 25.0] {
                let truth = costs(|rows| match rows {
                    1 => 10.0,
                    _ => second + 0.7 * (rows - 2) as f64,
                });
                // Load saw half of the difference between row counts.
                let seen = shared(costs(|rows| 5.0 + truth.pass_ms(rows) / 2.0));
                let mut adaptive = AdaptiveSpeculation::new(seen, AcceptanceEstimate::default());
                let (mut state, mut sum) = (seed, 0.0);
                for _ in 0..500 {
                    let k = adaptive.next_k(8);
                    let ms = truth.pass_ms(k + 1);
                    sum += ms;
                    let outlier = if random(&mut state) < 0.02 { 5.0 } else { 1.0 };
                    let noise = 0.95 + 0.1 * random(&mut state);
                    adaptive.record_step(k, 0, ms * noise * outlier);
                }
                assert!(sum <= 1.03 * 5000.0, "{second}: {}", sum / 5000.0);
            }
        }
    }

    /// Steps between probes that all fail.
    fn probe_gaps(second_row_ms: f64) -> Vec<usize> {
        let truth = costs(|rows| if rows == 1 { 10.0 } else { second_row_ms });
        let never = AcceptanceEstimate::from_probabilities(&[0.0]);
        let mut adaptive = AdaptiveSpeculation::new(shared(truth.clone()), never);
        let probes: Vec<usize> = (1..=1000)
            .filter(|_| {
                let k = adaptive.next_k(4);
                assert!(k <= 1, "probes draft one token");
                adaptive.record_step(k, 0, truth.pass_ms(k + 1));
                k == 1
            })
            .collect();
        let before = std::iter::once(&0).chain(&probes);
        probes.iter().zip(before).map(|(b, a)| b - a).collect()
    }

    /// Tokens a millisecond, and drafts a step, of a draft model that gives its tokens the probabilities that `choose` says, with whether
    /// the target agrees.
    fn simulate_draft_model(
        mut adaptive: AdaptiveSpeculation,
        truth: &StepCosts,
        ceiling: usize,
        mut choose: impl FnMut() -> (f64, bool),
    ) -> (f64, f64) {
        let (mut tokens, mut sum, mut drafts) = (0, 0.0, 0);
        let steps = 4000;
        for _ in 0..steps {
            let k = adaptive.next_k(ceiling);
            let least = adaptive.least_log_confidence(k).unwrap_or(f32::MIN);
            let (mut confidences, mut accepted) = (Vec::new(), 0);
            let mut confidence = 0.0;
            for i in 0..k {
                let (probability, right) = choose();
                confidence += probability.ln() as f32;
                confidences.push(confidence);
                accepted += usize::from(right && accepted == i);
                if confidence < least {
                    break;
                }
            }
            let drafted = confidences.len();
            let ms = truth.pass_ms(k + 1) + drafted as f64 * truth.draft_ms();
            match k {
                0 => adaptive.record_step(0, 0, ms),
                _ => {
                    adaptive.record_confidence(&confidences, accepted);
                    adaptive.record_whole_step(k, drafted, accepted, ms);
                }
            }
            tokens += accepted + 1;
            drafts += drafted;
            sum += ms;
        }
        (tokens as f64 / sum, drafts as f64 / f64::from(steps))
    }

    #[test]
    fn ending_drafts_early_is_better_than_any_fixed_length() {
        // A row costs a seventh of a pass, a draft a third.
        let truth = costs(|rows| 8.6 + 1.4 * rows as f64).with_draft_ms(3.3);
        // How often a token is a hard one; how modest the model is about both kinds.
        for (hard, modesty) in [
            (0.05, 1.0),
            (0.05, 3.0),
            (0.15, 1.0),
            (0.15, 3.0),
            (0.4, 1.0),
        ] {
            let mut state = 5;
            let mut choose = || {
                let right = match random(&mut state) < hard {
                    true => 0.4,
                    false => 0.98_f64,
                };
                (right.powf(modesty), random(&mut state) < right)
            };
            let adaptive =
                AdaptiveSpeculation::new(shared(truth.clone()), AcceptanceEstimate::default())
                    .with_confidence(Rc::default());
            let (rate, drafts) = simulate_draft_model(adaptive, &truth, 8, &mut choose);
            let right = hard * 0.4 + (1.0 - hard) * 0.98;
            let fixed = rates(8, &truth, 3.3, &[right; 15]);
            let best = fixed.iter().copied().fold(0.0, f64::max);
            println!("{hard} {modesty}: {rate:.4} of {best:.4} at {drafts:.2} drafts");
            assert!(rate > best, "{hard} {modesty}: {rate} of {fixed:?}");
        }
    }

    #[test]
    fn drafts_that_end_at_their_first_token_are_soon_given_up() {
        let truth = costs(|rows| 9.9 + 0.1 * rows as f64).with_draft_ms(3.0);
        let mut adaptive =
            AdaptiveSpeculation::new(shared(truth.clone()), AcceptanceEstimate::default());
        let mut sum = 0.0;
        for _ in 0..500 {
            let ms = match adaptive.next_k(8) {
                0 => {
                    adaptive.record_step(0, 0, truth.pass_ms(1));
                    truth.pass_ms(1)
                }
                // One pass of the draft model, and nothing to verify.
                k => {
                    let ms = truth.pass_ms(k + 1) + 3.0;
                    adaptive.record_whole_step(k, 1, 0, ms);
                    ms
                }
            };
            sum += ms;
        }
        assert!(sum <= 1.03 * 500.0 * truth.pass_ms(1), "{sum}");
    }

    #[test]
    fn probes_come_ever_more_rarely() {
        assert_eq!(probe_gaps(19.999)[..7], [8, 16, 32, 64, 128, 128, 128]);
        // 0.4 of 128, as a probe costs 0.4 more than a plain step.
        assert_eq!(probe_gaps(14.0)[..6], [8, 16, 32, 52, 52, 52]);
        assert!(probe_gaps(10.5).iter().all(|gap| *gap == 8));
        assert!(probe_gaps(20.0).is_empty(), "not worth a try");
    }

    #[test]
    fn a_probe_that_succeeds_brings_drafting_back() {
        let truth = costs(|rows| 9.0 + rows as f64);
        // Nothing for 300 steps, then everything.
        let (_, ks) = simulate(&truth, 8, 600, |step, k| if step < 300 { 0 } else { k });
        let back = (300..600).find(|step| ks[*step] > 0).unwrap();
        assert!(back - 300 <= LAST_PROBE_INTERVAL);
        assert!(ks[back + 10..].iter().all(|k| *k == 8), "{:?}", &ks[back..]);
    }

    #[test]
    fn a_probe_without_a_guess_stays_due() {
        let truth = costs(|rows| if rows == 1 { 10.0 } else { 14.0 });
        let never = AcceptanceEstimate::from_probabilities(&[0.0; 15]);
        let mut adaptive = AdaptiveSpeculation::new(shared(truth), never);
        for step in 1..40 {
            assert_eq!(adaptive.next_k(4), usize::from(step >= 8), "step {step}");
            adaptive.record_step(0, 0, 10.0);
        }
        // Where the context leaves no room, nothing is chosen and nothing is counted.
        assert_eq!(adaptive.next_k(0), 0);
        assert_eq!(adaptive.next_k(4), 1);
        adaptive.record_step(1, 0, 14.0);
        for step in 1..=16 {
            assert_eq!(adaptive.next_k(4), usize::from(step == 16), "step {step}");
            adaptive.record_step(0, 0, 10.0);
        }
    }

    #[test]
    fn an_oracle_is_asked_for_the_ceiling_within_a_few_steps() {
        for ceiling in 1..=15 {
            let (_, ks) = simulate(&costs(|_| 5.0), ceiling, 50, |_, k| k);
            assert!(ks.iter().all(|k| *k == ceiling), "{ks:?}");
            let rising = costs(|rows| 9.5 + 0.5 * rows as f64);
            let (_, ks) = simulate(&rising, ceiling, 50, |_, k| k);
            assert!(ks[12..].iter().all(|k| *k == ceiling), "{ks:?}");
        }
    }

    #[test]
    fn acceptance_by_chance_leads_to_what_brute_force_says() {
        let truth = costs(|rows| 9.0 + rows as f64);
        let state = RefCell::new(3);
        let (sum, ks) = simulate(&truth, 15, 4000, |_, k| {
            (0..k)
                .take_while(|_| random(&mut state.borrow_mut()) < 0.5)
                .count()
        });
        let rates = rates(15, &truth, 0.0, &[0.5; 15]);
        let tokens: f64 = ks.iter().map(|k| expected_tokens(*k, &[0.5; 15])).sum();
        assert!(
            tokens / sum > 0.93 * rates[2],
            "{} of {rates:?}",
            tokens / sum
        );
        let mean = ks.iter().sum::<usize>() as f64 / ks.len() as f64;
        assert!((1.5..3.0).contains(&mean), "2 is best, it chose {mean}");
    }

    #[test]
    fn the_predicted_speedup_by_hand() {
        let costs = costs(|rows| 9.0 + rows as f64).with_draft_ms(0.5);
        let mut statistics = AcceptanceStatistics::new(StatisticsLevel::Detailed, 4).unwrap();
        assert_eq!(predicted_speedup(0, &statistics, &costs), None);
        for (drafted, accepted) in [(4, 4), (0, 0), (2, 0), (4, 1)] {
            statistics.record_step(drafted, accepted);
            statistics.record_pass(drafted + 1);
        }
        statistics.draft_time_ms = 3.0;
        // 5 + 1 + 1 + 2 tokens; passes of 5, 1, 3 and 5 rows.
        let speedup = predicted_speedup(9, &statistics, &costs).unwrap();
        assert!((speedup - 90.0 / (14.0 + 10.0 + 12.0 + 14.0 + 3.0)).abs() < 1e-12);
        let mut summary = AcceptanceStatistics::new(StatisticsLevel::Summary, 4).unwrap();
        summary.record_step(2, 2);
        summary.record_pass(3);
        summary.num_proposed_tokens = 2;
        let speedup = predicted_speedup(3, &summary, &costs).unwrap();
        assert!((speedup - 30.0 / 13.0).abs() < 1e-12);
    }

    #[test]
    fn the_predicted_speedup_of_a_draft_model_by_hand() {
        let costs = costs(|rows| 9.0 + rows as f64).with_draft_ms(2.5);
        let drafted = |level| {
            let mut statistics = AcceptanceStatistics::new(level, 4).unwrap();
            // By the model 4 and, ended early, 2; by the host 3; by nobody.
            for (rows, drafted, accepted) in [(5, 4, 3), (5, 2, 2), (4, 3, 1), (1, 0, 0)] {
                statistics.record_step(drafted, accepted);
                statistics.record_pass(rows);
            }
            statistics.num_draft_passes = 4 + 2;
            statistics.num_proposed_tokens = 4 + 2 + 3;
            statistics
        };
        let close = |speedup: f64, by_hand: f64| (speedup - by_hand).abs() < 1e-12;
        // 4 + 3 + 2 + 1 tokens; passes of 5, 5, 4 and 1 rows, and six of the draft.
        let passes = 14.0 + 14.0 + 13.0 + 10.0 + 6.0 * 2.5;
        let summary = drafted(StatisticsLevel::Summary);
        let speedup = predicted_speedup(10, &summary, &costs).unwrap();
        assert!(close(speedup, 100.0 / passes), "{speedup}");
        // What the host took, and the draft model to read the prompt, was measured and comes on top.
        let mut detailed = drafted(StatisticsLevel::Detailed);
        detailed.draft_time_ms = 6.0;
        let speedup = predicted_speedup(10, &detailed, &costs).unwrap();
        assert!(close(speedup, 100.0 / (passes + 6.0)), "{speedup}");
        // As the model of the analysis has it: E(k) tokens in T(k + 1) + k·d, all of them accepted.
        let mut right = AcceptanceStatistics::new(StatisticsLevel::Detailed, 4).unwrap();
        for _ in 0..5 {
            right.record_step(4, 4);
            right.record_pass(5);
            right.num_draft_passes += 4;
        }
        let speedup = predicted_speedup(25, &right, &costs).unwrap();
        assert!(
            close(speedup, 5.0 * costs.pass_ms(1) / costs.step_ms(4)),
            "{speedup}"
        );
    }
}
