//! How long a wait for the device may take in a page, where nothing ends it by itself.
//!
//! Only time in which the page is visible counts, and of what passes between two looks a second at most: a tab that was
//! hidden, or a machine that slept, has not waited. When the time is over, the device is asked for a sign of life; it
//! counts as lost if none comes.

/// Milliseconds of a wait before the device is asked.
const LIMIT_MS: f64 = 10_000.0;
/// The same after pipelines were made, and on a processor: a compiler takes its time, and passes there take seconds.
const SLOW_LIMIT_MS: f64 = 60_000.0;
/// Milliseconds for its answer.
const ANSWER_MS: f64 = 5_000.0;
/// A wait ends here even if the device answers: what it waits for came before the question, and was dropped.
const MOST_MS: f64 = 60_000.0;
/// Of what passed between two looks at most so much counts.
const MOST_BETWEEN_LOOKS_MS: f64 = 1_000.0;

/// What to do after a look at the clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verdict {
    Wait,
    /// Ask the device for a sign of life.
    Ask,
    /// It is lost.
    GiveUp,
}

/// One wait.
#[derive(Debug)]
pub(crate) struct Patience {
    limit_ms: f64,
    last_look_ms: f64,
    waited_ms: f64,
    /// What of `waited_ms` the last question was asked at; `None` while none is open.
    asked_at_ms: Option<f64>,
    /// What of `waited_ms` the next question is due at.
    ask_at_ms: f64,
}

impl Patience {
    /// A wait that begins now.
    pub(crate) fn new(is_slow: bool, now_ms: f64) -> Self {
        let limit_ms = if is_slow { SLOW_LIMIT_MS } else { LIMIT_MS };
        Self {
            limit_ms,
            last_look_ms: now_ms,
            waited_ms: 0.0,
            asked_at_ms: None,
            ask_at_ms: limit_ms,
        }
    }

    /// Whole seconds that counted.
    pub(crate) fn seconds(&self) -> u32 {
        // `as` saturates.
        (self.waited_ms / 1e3) as u32
    }

    /// Looks at the clock. `answered`: whether the question that is open was answered.
    pub(crate) fn look(&mut self, now_ms: f64, visible: bool, answered: bool) -> Verdict {
        let passed = (now_ms - self.last_look_ms).clamp(0.0, MOST_BETWEEN_LOOKS_MS);
        self.last_look_ms = now_ms;
        if visible {
            self.waited_ms += passed;
        }
        match self.asked_at_ms {
            Some(_) if answered => {
                self.asked_at_ms = None;
                self.ask_at_ms = self.waited_ms + self.limit_ms;
                if self.waited_ms >= MOST_MS {
                    return Verdict::GiveUp;
                }
            }
            Some(at) if self.waited_ms - at >= ANSWER_MS => return Verdict::GiveUp,
            Some(_) => {}
            None if self.waited_ms >= self.ask_at_ms => {
                self.asked_at_ms = Some(self.waited_ms);
                return Verdict::Ask;
            }
            None => {}
        }
        Verdict::Wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks every half second for so many seconds; the last verdict but `Wait`, and when it came.
    fn watch(
        patience: &mut Patience,
        clock_ms: &mut f64,
        seconds: u32,
        visible: bool,
        answers: bool,
    ) -> Option<(Verdict, f64)> {
        let mut last = None;
        for _ in 0..2 * seconds {
            *clock_ms += 500.0;
            match patience.look(*clock_ms, visible, answers) {
                Verdict::Wait => {}
                verdict => last = Some((verdict, *clock_ms)),
            }
        }
        last
    }

    #[test]
    fn a_device_that_says_nothing_is_given_up_after_fifteen_seconds() {
        let (mut patience, mut clock) = (Patience::new(false, 0.0), 0.0);
        let asked = watch(&mut patience, &mut clock, 14, true, false);
        assert_eq!(asked, Some((Verdict::Ask, 10_000.0)));
        let given_up = watch(&mut patience, &mut clock, 1, true, false);
        assert_eq!(given_up, Some((Verdict::GiveUp, 15_000.0)));
        assert_eq!(patience.seconds(), 15);
    }

    #[test]
    fn one_that_answers_is_waited_for_up_to_a_minute() {
        let (mut patience, mut clock) = (Patience::new(false, 0.0), 0.0);
        let asked = watch(&mut patience, &mut clock, 59, true, true);
        assert!(matches!(asked, Some((Verdict::Ask, _))), "{asked:?}");
        let given_up = watch(&mut patience, &mut clock, 20, true, true);
        assert!(
            matches!(given_up, Some((Verdict::GiveUp, _))),
            "{given_up:?}"
        );
    }

    #[test]
    fn compiling_may_take_a_minute() {
        let (mut patience, mut clock) = (Patience::new(true, 0.0), 0.0);
        assert_eq!(watch(&mut patience, &mut clock, 59, true, false), None);
        let asked = watch(&mut patience, &mut clock, 2, true, false);
        assert_eq!(asked, Some((Verdict::Ask, 60_000.0)));
    }

    #[test]
    fn hidden_and_slept_time_does_not_count() {
        let (mut patience, mut clock) = (Patience::new(false, 0.0), 0.0);
        assert_eq!(watch(&mut patience, &mut clock, 3_600, false, false), None);
        // A night's sleep between two looks is a second.
        clock += 28_800_000.0;
        assert_eq!(patience.look(clock, true, false), Verdict::Wait);
        assert_eq!(patience.seconds(), 1);
        // Nor does a clock that is set back.
        assert_eq!(patience.look(0.0, true, false), Verdict::Wait);
        assert_eq!(patience.seconds(), 1);
    }
}
