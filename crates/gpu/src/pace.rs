//! How many submissions a pass is cut into, so that none keeps the device for long.
//!
//! A page's compositor shares the device, and drivers take a queue that stands still for a second or two for hung. Cutting a
//! pass between two dispatches changes no result.

use foretoken_core::{Clock, Phase};

/// What a submission should take at most, in milliseconds.
const SUBMIT_MS: f64 = 100.0;
/// The most submissions of a pass of the row family: a step has no more. And of a prompt's, and of a draft model's passes with the one
/// that verifies.
const MOST_OF_ROWS: usize = 4;
const MOST_OF_PREFILL: usize = 16;
const MOST_OF_DRAFTED: usize = 16;
/// Passes of the row family that take alike: by rows up to 1, 2, 4, 8, 16.
const ROW_CLASSES: usize = 5;
const PREFILL: usize = ROW_CLASSES;
/// Behind it, by the rows of the pass that verifies.
const DRAFTED: usize = PREFILL + 1;
const CLASSES: usize = DRAFTED + ROW_CLASSES;

fn class_of(phase: Phase, rows: u32, drafted: bool) -> usize {
    let of_rows = (rows.max(1).next_power_of_two().ilog2() as usize).min(ROW_CLASSES - 1);
    match (phase, drafted) {
        (Phase::Prefill, _) => PREFILL,
        (Phase::Rows, false) => of_rows,
        (Phase::Rows, true) => DRAFTED + of_rows,
    }
}

/// What passes took lately.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    pass_ms: [Option<f64>; CLASSES],
    /// Passes since the last wait: when the first was handed over, how many, and their class if they have one.
    under_way: Option<(Clock, u32, Option<usize>)>,
}

impl Pace {
    /// Submissions for the next pass; `drafted`: with those of a draft model that made its drafts.
    pub(crate) fn pieces(&self, phase: Phase, rows: u32, drafted: bool) -> usize {
        let class = class_of(phase, rows, drafted);
        let largest = self.pass_ms[..PREFILL].iter().flatten().copied();
        let (guess, most) = match class {
            // Before the first prompt: twice the longest pass of at most sixteen rows, since it has up to 32.
            PREFILL => (Some(2.0 * largest.fold(0.0, f64::max)), MOST_OF_PREFILL),
            // Before the first of them: a pass of one row for each draft, and the one that verifies.
            DRAFTED.. => {
                let [one, all] = [0, class - DRAFTED].map(|of_rows| self.pass_ms[of_rows]);
                let drafts = f64::from(rows.saturating_sub(1));
                let guess = one.zip(all).map(|(one, all)| drafts * one + all);
                (guess, MOST_OF_DRAFTED)
            }
            _ => (None, MOST_OF_ROWS),
        };
        match self.pass_ms[class].or(guess) {
            // `as` saturates.
            Some(ms) => ((ms / SUBMIT_MS).ceil() as usize).clamp(1, most),
            None => 1,
        }
    }

    /// Nobody will wait for what was handed over.
    pub(crate) fn abandoned(&mut self) {
        self.under_way = None;
    }

    /// A pass was handed over.
    pub(crate) fn submitted(&mut self, phase: Phase, rows: u32, drafted: bool) {
        let class = class_of(phase, rows, drafted);
        self.under_way = Some(match self.under_way.take() {
            None => (Clock::start(), 1, Some(class)),
            Some((clock, passes, of)) => (clock, passes + 1, of.filter(|of| *of == class)),
        });
    }

    /// All that was handed over is done.
    pub(crate) fn waited(&mut self) {
        if let Some((clock, passes, Some(class))) = self.under_way.take() {
            self.record(class, clock.elapsed_ms() / f64::from(passes));
        }
    }

    fn record(&mut self, class: usize, ms: f64) {
        let before = self.pass_ms[class].unwrap_or(ms);
        // A pass that waited for something else, a compiler perhaps, is soon forgotten.
        self.pass_ms[class] = Some(0.5 * before + 0.5 * ms.min(2.0 * before.max(1.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_cut_by_what_its_like_took() {
        let mut pace = Pace::default();
        assert_eq!(pace.pieces(Phase::Rows, 1, false), 1);
        assert_eq!(
            pace.pieces(Phase::Prefill, 32, false),
            1,
            "nothing is known"
        );
        pace.record(class_of(Phase::Rows, 1, false), 140.0);
        pace.record(class_of(Phase::Rows, 16, false), 700.0);
        assert_eq!(pace.pieces(Phase::Rows, 1, false), 2);
        assert_eq!(
            pace.pieces(Phase::Rows, 9, false),
            4,
            "seven, but four at most"
        );
        assert_eq!(pace.pieces(Phase::Prefill, 32, false), 14, "twice 700 ms");
        pace.record(PREFILL, 250.0);
        assert_eq!(pace.pieces(Phase::Prefill, 5, false), 3);
        for _ in 0..8 {
            pace.record(PREFILL, 40.0);
        }
        assert_eq!(pace.pieces(Phase::Prefill, 32, false), 1);
    }

    #[test]
    fn passes_with_those_of_a_draft_model_are_a_class_of_their_own() {
        let mut pace = Pace::default();
        assert_eq!(pace.pieces(Phase::Rows, 5, true), 1, "nothing is known");
        pace.record(class_of(Phase::Rows, 1, false), 40.0);
        pace.record(class_of(Phase::Rows, 5, false), 90.0);
        // Four passes of one row and one of five: 250 ms.
        assert_eq!(pace.pieces(Phase::Rows, 5, true), 3);
        pace.record(class_of(Phase::Rows, 5, true), 2000.0);
        assert_eq!(pace.pieces(Phase::Rows, 5, true), 16);
        assert_eq!(pace.pieces(Phase::Rows, 5, false), 1, "as before");
    }

    #[test]
    fn classes_are_powers_of_two() {
        let classes: Vec<usize> = [1, 2, 3, 4, 5, 8, 9, 16]
            .into_iter()
            .map(|rows| class_of(Phase::Rows, rows, false))
            .collect();
        assert_eq!(classes, [0, 1, 2, 2, 3, 3, 4, 4]);
    }
}
