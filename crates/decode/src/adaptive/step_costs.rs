//! What a step costs on this device with this model.

use foretoken_core::MAX_VERIFY_ROWS;

use crate::MAX_SPECULATIVE_TOKENS;

/// The weight of one step's time in the moving average of its row count.
const WEIGHT: f64 = 0.1;

/// A step's time counts as at most this many times what was expected, and as at least what is that many times less: one
/// that waited for something else says little about the pass.
const CLIP: f64 = 1.25;

/// How far each step moves the row counts that it did not have towards the measured shape at its own level. So, over
/// some hundred steps, they follow a context that grows or a device that slows down, and a row count that looked
/// expensive for a passing reason is not avoided for ever.
const FORGET: f64 = 1.0 / 256.0;

/// The evidence for a time that was taken from another row count's, where one that was measured has 1 and each step adds 1.
const BORROWED_EVIDENCE: f64 = 0.05;

/// The most evidence that steps gather for a row count.
const MOST_EVIDENCE: f64 = 16.0;

/// Times are taken into these bounds, in milliseconds, so that no sum or ratio of them overflows or is zero.
const BOUNDS_MS: (f64, f64) = (1e-6, 1e9);

/// Milliseconds by number of rows, 1 first.
type ByRows = [f64; MAX_VERIFY_ROWS];

/// Estimated time of a pass of 1 to 16 rows and of drafting one token: measured at load, and corrected by every step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepCosts {
    /// As measured at load, without the noise: what gives the curve its shape.
    measured: ByRows,
    /// Moving averages, each row count for itself.
    averages: ByRows,
    /// How much speaks for each average. What steps added is forgotten as their times are.
    evidence: ByRows,
    /// The averages without the noise: more rows never cost less.
    fitted: ByRows,
    draft_ms: f64,
    /// As measured at load.
    measured_draft_ms: f64,
}

impl StepCosts {
    /// Costs from passes timed at load, as (rows, milliseconds). Several times of one row count: their median is
    /// taken. Row counts between cost what the next measured one does, as kernels are made for those and compute all of
    /// their rows; those above go on as the last two measured do, those below cost what the least measured does; where
    /// noise makes more rows cheaper, neighbours are averaged. Rows outside 1 to 16, and
    /// times that are not positive numbers, are left out; `None` if that leaves nothing. Drafting costs nothing until
    /// it was seen to.
    pub fn from_measured(passes: &[(usize, f64)]) -> Option<Self> {
        let mut rows = Vec::new();
        let mut times = Vec::new();
        for count in 1..=MAX_VERIFY_ROWS {
            let mut of_count: Vec<f64> = passes
                .iter()
                .filter(|(rows, ms)| *rows == count && is_time(*ms))
                .map(|(_, ms)| ms.clamp(BOUNDS_MS.0, BOUNDS_MS.1))
                .collect();
            of_count.sort_by(f64::total_cmp);
            if let Some(median) = of_count.get(of_count.len() / 2) {
                rows.push(count);
                times.push(*median);
            }
        }
        let equal = vec![1.0; times.len()];
        make_non_decreasing(&mut times, &equal);
        let points: Vec<(usize, f64)> = rows.into_iter().zip(times).collect();
        let first = *points.first()?;
        let measured = std::array::from_fn(|i| {
            let rows = i + 1;
            let next = points.iter().find(|(measured, _)| rows <= *measured);
            match (next, points.last_chunk()) {
                (Some((_, ms)), _) => *ms,
                (None, Some(&[(from, early), (to, late)])) => {
                    late + (late - early) * (rows - to) as f64 / (to - from) as f64
                }
                (None, None) => first.1,
            }
        });
        Some(Self {
            measured,
            averages: measured,
            evidence: std::array::from_fn(|i| {
                let timed = points.iter().any(|(rows, _)| *rows == i + 1);
                if timed { 1.0 } else { BORROWED_EVIDENCE }
            }),
            fitted: measured,
            draft_ms: 0.0,
            measured_draft_ms: 0.0,
        })
    }

    /// The same with drafting one token costing `ms` (0 if that is not a positive number).
    pub fn with_draft_ms(mut self, ms: f64) -> Self {
        self.draft_ms = if is_time(ms) {
            ms.min(BOUNDS_MS.1)
        } else {
            0.0
        };
        self.measured_draft_ms = self.draft_ms;
        self
    }

    /// Milliseconds of a pass of `rows` rows; more rows never cost less.
    ///
    /// # Panics
    /// If that is not 1 to 16.
    pub fn pass_ms(&self, rows: usize) -> f64 {
        self.fitted[rows - 1]
    }

    /// Milliseconds of drafting one token.
    pub fn draft_ms(&self) -> f64 {
        self.draft_ms
    }

    /// Milliseconds of a step that drafts and verifies `k` tokens.
    ///
    /// # Panics
    /// If `k` is above 15.
    pub fn step_ms(&self, k: usize) -> f64 {
        self.pass_ms(k + 1) + k as f64 * self.draft_ms
    }

    /// Takes note of the time of a pass of `rows` rows, and forgets a little of all others and of drafting. One that a pass or a clock
    /// cannot have is left out.
    pub fn record_pass(&mut self, rows: usize, ms: f64) {
        if !(1..=MAX_VERIFY_ROWS).contains(&rows) || !is_time(ms) {
            return;
        }
        let (least, most) = BOUNDS_MS;
        let expected = self.averages[rows - 1];
        let ms = ms.clamp(expected / CLIP, expected * CLIP);
        let average = (expected + WEIGHT * (ms - expected)).clamp(least, most);
        let level = average / self.measured[rows - 1];
        for (other, measured) in self.averages.iter_mut().zip(self.measured) {
            *other = (*other + FORGET * (measured * level - *other)).clamp(least, most);
        }
        // Or drafting that looked expensive for a passing reason would not be tried again.
        self.draft_ms += FORGET * (self.measured_draft_ms * level - self.draft_ms);
        self.averages[rows - 1] = average;
        let evidence = (self.evidence[rows - 1] + 1.0).min(MOST_EVIDENCE);
        for other in &mut self.evidence {
            *other += FORGET * (BORROWED_EVIDENCE - *other);
        }
        self.evidence[rows - 1] = evidence;
        self.fitted = self.averages;
        make_non_decreasing(&mut self.fitted, &self.evidence);
    }

    /// Takes note of the time it took to propose `tokens` tokens. None proposed: nothing is learnt.
    pub fn record_draft(&mut self, tokens: usize, ms: f64) {
        if tokens == 0 || !ms.is_finite() || ms < 0.0 {
            return;
        }
        let most = (CLIP * self.draft_ms).max(self.pass_ms(1) / MAX_SPECULATIVE_TOKENS as f64);
        let ms = (ms / tokens as f64).min(most).min(BOUNDS_MS.1);
        self.draft_ms += WEIGHT * (ms - self.draft_ms);
    }
}

fn is_time(ms: f64) -> bool {
    ms.is_finite() && ms > 0.0
}

/// Replaces values by the nearest ones, in least squares with these weights, that do not decrease: neighbours that do
/// are averaged until none does ("pool adjacent violators").
fn make_non_decreasing(values: &mut [f64], weights: &[f64]) {
    // Of neighbours that were averaged: their mean, their weight and how many.
    let mut pools: Vec<(f64, f64, usize)> = Vec::with_capacity(values.len());
    for (value, weight) in values.iter().zip(weights) {
        let mut pool = (*value, *weight, 1);
        while let Some((mean, weight, count)) = pools.pop_if(|last| last.0 > pool.0) {
            let sum = mean * weight + pool.0 * pool.1;
            pool = (sum / (weight + pool.1), weight + pool.1, count + pool.2);
        }
        pools.push(pool);
    }
    let fitted = pools
        .into_iter()
        .flat_map(|(mean, _, count)| std::iter::repeat_n(mean, count));
    for (value, fitted) in values.iter_mut().zip(fitted) {
        *value = fitted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(costs: &StepCosts) -> Vec<f64> {
        (1..=16).map(|rows| costs.pass_ms(rows)).collect()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * b.abs()
    }

    #[test]
    fn measured_counts_are_kept_and_others_cost_what_the_next_does() {
        let costs =
            StepCosts::from_measured(&[(8, 20.0), (1, 10.0), (2, 10.5), (4, 13.0)]).unwrap();
        let expected = [10.0, 10.5, 13.0, 13.0, 20.0, 20.0, 20.0, 20.0, 21.75];
        assert!(
            times(&costs)
                .iter()
                .zip(expected)
                .all(|(a, b)| close(*a, b))
        );
        assert!(close(costs.pass_ms(16), 20.0 + 8.0 * 1.75));
        assert_eq!((costs.draft_ms(), costs.step_ms(1)), (0.0, 10.5));
        let drafting = costs.with_draft_ms(2.0);
        assert_eq!(drafting.step_ms(3), 13.0 + 6.0);
    }

    #[test]
    fn noise_and_nonsense() {
        let one = StepCosts::from_measured(&[(4, 7.0)]).unwrap();
        assert_eq!(times(&one), [7.0; 16]);
        // The median of three; a fourth row that was timed cheaper than two.
        let noisy = [
            (1, 10.0),
            (1, 99.0),
            (1, 10.2),
            (2, 14.0),
            (4, 12.0),
            (8, 20.0),
        ];
        let costs = StepCosts::from_measured(&noisy).unwrap();
        assert_eq!(times(&costs)[..4], [10.2, 13.0, 13.0, 13.0]);
        let nonsense = [
            (0, 1.0),
            (17, 1.0),
            (1, 0.0),
            (1, -1.0),
            (2, f64::NAN),
            (3, f64::INFINITY),
        ];
        assert_eq!(StepCosts::from_measured(&nonsense), None);
        assert_eq!(StepCosts::from_measured(&[]), None);
        let with_sense = [&nonsense[..], &[(2, 5.0)]].concat();
        assert_eq!(
            StepCosts::from_measured(&with_sense),
            StepCosts::from_measured(&[(2, 5.0)])
        );
    }

    #[test]
    fn steps_correct_what_load_measured() {
        let mut costs = StepCosts::from_measured(&[(1, 10.0), (16, 10.0)]).unwrap();
        for _ in 0..60 {
            costs.record_pass(5, 14.0);
            costs.record_pass(1, 10.0);
        }
        assert!((costs.pass_ms(5) - 14.0).abs() < 0.5, "{costs:?}");
        assert!((costs.pass_ms(1) - 10.0).abs() < 0.3, "{costs:?}");
        assert!(times(&costs).is_sorted());
    }

    #[test]
    fn an_outlier_is_clipped() {
        let mut costs = StepCosts::from_measured(&[(1, 10.0), (2, 20.0)]).unwrap();
        costs.record_pass(1, 5000.0);
        assert!(close(costs.pass_ms(1), 10.25));
        costs.record_pass(1, 0.001);
        assert!(close(costs.pass_ms(1), 10.25 * (0.9 + 0.1 / 1.25)));
        let before = costs.clone();
        for ms in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            costs.record_pass(1, ms);
            costs.record_draft(3, -1.0);
            costs.record_draft(3, f64::NAN);
        }
        costs.record_draft(0, 100.0);
        costs.record_pass(0, 1.0);
        costs.record_pass(17, 1.0);
        assert_eq!(costs, before);
    }

    #[test]
    fn counts_that_do_not_occur_follow_the_level_and_forget() {
        let load = StepCosts::from_measured(&[(1, 10.0), (4, 13.0), (16, 40.0)]).unwrap();
        let mut slower = load.clone();
        for _ in 0..2000 {
            slower.record_pass(1, 20.0);
        }
        assert!((slower.pass_ms(4) / 26.0 - 1.0).abs() < 0.01, "{slower:?}");
        // Four rows met a busy device; then it was calm again, and nobody drafted.
        let mut busy = load.clone();
        for _ in 0..100 {
            busy.record_pass(4, 60.0);
        }
        assert!(busy.pass_ms(4) > 50.0);
        for _ in 0..2000 {
            busy.record_pass(1, 10.0);
        }
        assert!((busy.pass_ms(4) / 13.0 - 1.0).abs() < 0.01, "{busy:?}");
    }

    #[test]
    fn drafting_is_averaged_by_token() {
        let mut costs = StepCosts::from_measured(&[(1, 10.0)]).unwrap();
        for _ in 0..60 {
            costs.record_draft(4, 2.0);
        }
        assert!((costs.draft_ms() - 0.5).abs() < 1e-3);
        // One slow draft moves it little, but a drafter that is slow is found out.
        costs.record_draft(1, 1e6);
        assert!(costs.draft_ms() < 0.6);
        for _ in 0..200 {
            costs.record_draft(1, 50.0);
        }
        assert!((costs.draft_ms() - 50.0).abs() < 1.0);
    }

    #[test]
    fn extremes_stay_finite_positive_and_monotone() {
        let extremes = [f64::MAX, f64::MIN_POSITIVE, 1e-300, 1e300, 1.0];
        for a in extremes {
            for b in extremes {
                let mut costs = StepCosts::from_measured(&[(1, a), (3, b), (16, a)]).unwrap();
                for step in 0..500 {
                    costs.record_pass(1 + step % 16, extremes[step % 5]);
                    costs.record_draft(step % 3, extremes[step % 4]);
                    let times = times(&costs);
                    assert!(times.iter().all(|ms| ms.is_finite() && *ms > 0.0));
                    assert!(times.is_sorted(), "{times:?}");
                    assert!(costs.draft_ms().is_finite() && costs.draft_ms() >= 0.0);
                }
            }
        }
    }
}
