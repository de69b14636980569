//! How far a draft model's own confidence can be trusted.

/// Bins of probability.
const BINS: usize = 16;

/// The weight of an observation once there were several.
const WEIGHT: f64 = 0.05;

/// How many observations the prior is worth.
const PRIOR_WEIGHT: f64 = 4.0;

/// How likely a draft and all before it are accepted, by the probability that the draft model gave them together: moving averages by
/// bin. At first the model is believed.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfidenceEstimate {
    accepted: [f64; BINS],
    observed: [u32; BINS],
}

impl Default for ConfidenceEstimate {
    fn default() -> Self {
        Self {
            accepted: std::array::from_fn(|bin| (bin as f64 + 0.5) / BINS as f64),
            observed: [0; BINS],
        }
    }
}

impl ConfidenceEstimate {
    /// Takes note of a draft whose tokens had these probabilities together with all before them, and of which the first `accepted`
    /// were accepted.
    pub fn record(&mut self, log_confidences: &[f32], accepted: usize) {
        for (i, &log) in log_confidences.iter().enumerate() {
            // `as` saturates, and takes what is no number for 0.
            let bin = ((f64::from(log).exp() * BINS as f64) as usize).min(BINS - 1);
            self.observed[bin] = self.observed[bin].saturating_add(1);
            let weight = WEIGHT.max(1.0 / (f64::from(self.observed[bin]) + PRIOR_WEIGHT));
            let target = if i < accepted { 1.0 } else { 0.0 };
            self.accepted[bin] += weight * (target - self.accepted[bin]);
        }
    }

    /// ln of the least confidence of a token that is accepted with at least the probability `needed`. The surest bin always is enough.
    pub fn least_log_confidence(&self, needed: f64) -> f32 {
        // Where nothing was seen, what is less sure and was seen says the least that can be expected.
        let mut seen: f64 = 0.0;
        let expected: [f64; BINS - 1] = std::array::from_fn(|bin| {
            if self.observed[bin] > 0 {
                seen = self.accepted[bin];
            }
            seen.max(self.accepted[bin])
        });
        let enough = expected
            .iter()
            .rev()
            .take_while(|accepted| **accepted >= needed)
            .count();
        let bin = BINS - 1 - enough;
        match bin {
            0 => f32::MIN,
            bin => (bin as f32 / BINS as f32).ln(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_first_the_model_is_believed() {
        let estimate = ConfidenceEstimate::default();
        // The bin from 0.5 on has its middle at 0.53.
        assert_eq!(estimate.least_log_confidence(0.5), 0.5f32.ln());
        assert_eq!(estimate.least_log_confidence(0.0), f32::MIN);
        assert_eq!(estimate.least_log_confidence(2.0), (15.0f32 / 16.0).ln());
    }

    #[test]
    fn a_model_that_boasts_is_asked_for_more_and_a_shy_one_for_less() {
        let mut boasts = ConfidenceEstimate::default();
        let mut shy = ConfidenceEstimate::default();
        for step in 0..400 {
            // 0.8 is right in one of four; 0.2 in nine of ten.
            boasts.record(&[0.8f32.ln()], usize::from(step % 4 == 0));
            shy.record(&[0.2f32.ln()], usize::from(step % 10 != 0));
        }
        assert_eq!(boasts.least_log_confidence(0.5), (13.0f32 / 16.0).ln());
        // What is surer than that was never seen, and is expected to be no worse.
        assert_eq!(shy.least_log_confidence(0.5), (3.0f32 / 16.0).ln());
    }

    #[test]
    fn odd_numbers_are_taken_as_they_come() {
        let mut estimate = ConfidenceEstimate::default();
        estimate.record(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3.0], 9);
        assert!(estimate.accepted.iter().all(|p| (0.0..=1.0).contains(p)));
    }
}
