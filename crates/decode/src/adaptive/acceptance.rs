//! How likely drafts are accepted, by their place in the draft.

use crate::MAX_SPECULATIVE_TOKENS;

/// The probability before anything is known: high enough that first steps draft where a row is cheap.
const PRIOR: f64 = 0.5;

/// How many observations the prior is worth.
const PRIOR_WEIGHT: f64 = 2.0;

/// The weight of an observation once there were several.
const WEIGHT: f64 = 0.1;

/// How far each verified draft moves the places beyond its end towards the one before them. Without it a place that
/// was unlucky a few times would not be drafted again, and so never be known better.
const FORGET: f64 = 1.0 / 32.0;

/// How many verified drafts of an answer weigh as much as everything before them in an engine-wide estimate.
const ABSORBED_WEIGHT: f64 = 50.0;

/// For each place in a draft, the probability that the draft there is accepted once those before it were: exponential
/// moving averages, whose first observations weigh more than later ones. A place that was never reached is taken for
/// as likely as the deepest that was, so that a drafter which is right soon drafts far.
#[derive(Debug, Clone, PartialEq)]
pub struct AcceptanceEstimate {
    probabilities: [f64; MAX_SPECULATIVE_TOKENS],
    /// Observations at each place.
    observed: [u32; MAX_SPECULATIVE_TOKENS],
    /// Places, from the first on, with a probability of their own: observed or given.
    known: usize,
}

impl Default for AcceptanceEstimate {
    /// Nothing is known yet: 0.5 everywhere.
    fn default() -> Self {
        Self::from_probabilities(&[])
    }
}

impl AcceptanceEstimate {
    /// Starts with these probabilities, taken into 0 to 1 (a NaN is 0), and without evidence.
    pub fn from_probabilities(probabilities: &[f64]) -> Self {
        let mut estimate = Self {
            probabilities: [PRIOR; MAX_SPECULATIVE_TOKENS],
            observed: [0; MAX_SPECULATIVE_TOKENS],
            known: probabilities.len().min(MAX_SPECULATIVE_TOKENS),
        };
        for (to, from) in estimate.probabilities.iter_mut().zip(probabilities) {
            *to = if from.is_nan() {
                0.0
            } else {
                from.clamp(0.0, 1.0)
            };
        }
        estimate.extend();
        estimate
    }

    /// The start for a new answer by what earlier ones taught: half way between that and knowing nothing, because the
    /// next text may be of another kind.
    pub fn seeded(earlier: &Self) -> Self {
        let known = &earlier.probabilities[..earlier.known];
        Self::from_probabilities(&known.iter().map(|p| (p + PRIOR) / 2.0).collect::<Vec<_>>())
    }

    /// Takes in what an answer taught, as far as it saw anything: for an estimate that outlives answers.
    pub fn absorb(&mut self, answer: &Self) {
        let reached = answer.observed.iter().take_while(|n| **n > 0).count();
        for i in 0..reached {
            let observed = f64::from(answer.observed[i]);
            let weight = observed / (observed + ABSORBED_WEIGHT);
            self.probabilities[i] += weight * (answer.probabilities[i] - self.probabilities[i]);
        }
        self.known = self.known.max(reached);
        self.extend();
    }

    /// The probabilities, the draft's first token first.
    pub fn probabilities(&self) -> &[f64; MAX_SPECULATIVE_TOKENS] {
        &self.probabilities
    }

    /// Takes note of a step that verified `drafted` drafts and accepted the first `accepted`. Nothing is learnt of
    /// places behind the first rejected draft: what stood there was not what the target would have been asked. Places
    /// beyond the draft's end are forgotten a little, towards the place before them.
    pub fn record_step(&mut self, drafted: usize, accepted: usize) {
        if drafted == 0 {
            return;
        }
        let reached = drafted.min(accepted + 1).min(MAX_SPECULATIVE_TOKENS);
        for i in 0..reached {
            let target = if i < accepted { 1.0 } else { 0.0 };
            self.observed[i] = self.observed[i].saturating_add(1);
            let weight = WEIGHT.max(1.0 / (f64::from(self.observed[i]) + PRIOR_WEIGHT));
            self.probabilities[i] += weight * (target - self.probabilities[i]);
        }
        for i in drafted..MAX_SPECULATIVE_TOKENS {
            let before = self.probabilities[i - 1];
            self.probabilities[i] += FORGET * (before - self.probabilities[i]);
        }
        self.known = self.known.max(reached);
        self.extend();
    }

    /// Takes places that are not known for the last that is.
    fn extend(&mut self) {
        if let Some(last) = self.known.checked_sub(1) {
            let last = self.probabilities[last];
            self.probabilities[self.known..].fill(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_observations_weigh_more() {
        let mut estimate = AcceptanceEstimate::default();
        assert_eq!(estimate.probabilities(), &[0.5; 15]);
        for n in 1..=20 {
            let before = estimate.probabilities()[0];
            estimate.record_step(3, 0);
            let after = estimate.probabilities()[0];
            // 1 in n + 2 as if the prior were two observations, and then a tenth.
            let expected = if n <= 8 {
                1.0 / (n + 2) as f64
            } else {
                0.9 * before
            };
            assert!((after - expected).abs() < 1e-12, "{n}: {after}");
            // Places that were never reached are no likelier.
            assert_eq!(estimate.probabilities(), &[after; 15]);
        }
    }

    #[test]
    fn places_that_were_never_reached_are_as_likely_as_the_deepest_that_was() {
        let mut estimate = AcceptanceEstimate::default();
        for _ in 0..10 {
            estimate.record_step(2, 2);
        }
        let p = *estimate.probabilities();
        assert!(p[0] > 0.85 && p[1] > 0.85);
        assert_eq!(p[2..], [p[1]; 13]);
        // Once reached, a place goes its own way.
        estimate.record_step(4, 3);
        estimate.record_step(1, 0);
        let p = *estimate.probabilities();
        assert!(p[0] < p[2] && p[3] < p[2]);
        assert_eq!(p[4..], [p[3]; 11]);
    }

    #[test]
    fn only_places_that_were_reached_are_updated() {
        let mut estimate = AcceptanceEstimate::from_probabilities(&[0.5; 15]);
        estimate.record_step(15, 2);
        let p = *estimate.probabilities();
        assert!(p[0] > 0.5 && p[1] > 0.5 && p[2] < 0.5);
        assert_eq!(p[3..], [0.5; 12]);
        // A short draft that was wholly accepted says nothing of what would have followed: that is only forgotten.
        estimate.record_step(2, 2);
        let after = estimate.probabilities();
        assert!(after[0] > p[0] && after[1] > p[1]);
        assert!((after[2] - (p[2] + (after[1] - p[2]) / 32.0)).abs() < 1e-12);
        let before = estimate.clone();
        estimate.record_step(0, 0);
        assert_eq!(estimate, before);
    }

    #[test]
    fn a_place_that_is_no_longer_drafted_is_forgotten() {
        let mut estimate = AcceptanceEstimate::from_probabilities(&[0.8, 0.0]);
        for step in 0..150 {
            estimate.record_step(1, usize::from(step % 5 != 0));
        }
        let p = estimate.probabilities();
        assert!((p[1] - p[0]).abs() < 0.2, "{p:?}");
    }

    #[test]
    fn probabilities_stay_probabilities() {
        let odd = [f64::NAN, f64::INFINITY, -1.0, 2.0, 0.25];
        let estimate = AcceptanceEstimate::from_probabilities(&odd);
        assert_eq!(
            estimate.probabilities()[..6],
            [0.0, 1.0, 0.0, 1.0, 0.25, 0.25]
        );
        let mut estimate = AcceptanceEstimate::default();
        for step in 0..10_000 {
            estimate.record_step(step % 40, step % 7);
            assert!(
                estimate
                    .probabilities()
                    .iter()
                    .all(|p| (0.0..=1.0).contains(p))
            );
        }
    }

    #[test]
    fn an_engine_wide_estimate_learns_by_evidence_and_seeds_half() {
        let mut engine = AcceptanceEstimate::default();
        let mut answer = AcceptanceEstimate::default();
        engine.absorb(&answer);
        assert_eq!(engine, AcceptanceEstimate::default());
        for _ in 0..50 {
            answer.record_step(2, 0);
        }
        engine.absorb(&answer);
        // 50 observations weigh a half.
        let p = engine.probabilities()[0];
        assert!((p - 0.25).abs() < 0.01, "{p}");
        let seeded = AcceptanceEstimate::seeded(&engine);
        assert_eq!(seeded.probabilities(), &[(p + 0.5) / 2.0; 15]);
        // Only evidence of its own is passed on, not the seed.
        let before = engine.clone();
        engine.absorb(&seeded);
        assert_eq!(engine, before);
        // A place that only one answer reached.
        let mut deep = AcceptanceEstimate::default();
        deep.record_step(2, 2);
        engine.absorb(&deep);
        assert!(engine.probabilities()[1] > before.probabilities()[1]);
    }
}
