//! Measuring what a pass costs on the device.

use foretoken_core::{
    Chosen, Clock, LanguageModel, MAX_VERIFY_ROWS, Ops, OpsError, Phase, Position, Row, Sampling,
};
use foretoken_decode::{AbortSignal, Draft, DraftCache, MAX_SPECULATIVE_TOKENS, time_drafted_step};

use crate::engine::Work;
use crate::turn::Turn;
use crate::{Engine, Error};

impl<O: Ops> Engine<O> {
    /// Runs one verify pass of `rows` rows, 1..=16, after `context` positions, and returns how long it took from its
    /// recording to the reading of what it chose, in milliseconds. What the KV cache held is forgotten.
    ///
    /// # Errors
    /// If the rows do not fit the context, or whatever the device says.
    pub async fn time_verify_pass(&self, rows: usize, context: u32) -> Result<f64, Error> {
        let fits = context.checked_add(rows as u32);
        if rows == 0 || rows > MAX_VERIFY_ROWS || fits.is_none_or(|end| end > self.limits().context)
        {
            return Err(Error::InvalidRequest {
                param: None,
                message: format!(
                    "a pass of {rows} rows after {context} positions does not fit: 1..={MAX_VERIFY_ROWS} rows \
                     within a context of {} are measured",
                    self.limits().context
                ),
            });
        }
        let shared = &self.shared;
        let mut turn = self.turn_to_measure().await?;
        Ok(time_pass(&mut turn.ops, shared.model.as_ref(), rows, context).await?)
    }

    /// A turn of its own. What the target's KV cache held is forgotten.
    async fn turn_to_measure(&self) -> Result<Turn<Work<O>>, Error> {
        // Nobody raises it.
        let abort = AbortSignal::new();
        let turn = self.join(&abort)?.turn(&abort).await;
        let mut turn = turn.ok_or(Error::Busy)?;
        turn.session.forget();
        Ok(turn)
    }

    /// Runs one step after `context` positions whose `k` drafts the draft model makes, and returns how long it took from its recording to
    /// the reading of what it chose, in milliseconds; `None` where there is no draft model, no room, or no `k` drafts that the target
    /// has. What the KV caches held is forgotten.
    ///
    /// # Errors
    /// If too many requests wait, or whatever the device says.
    pub async fn time_drafted_step(&self, k: usize, context: u32) -> Result<Option<f64>, Error> {
        let shared = &self.shared;
        let Some(draft) = shared.draft_model() else {
            return Ok(None);
        };
        let target = shared.model.as_ref();
        let room = self.limits().context.min(draft.model.context_length());
        let end = context as usize + k + 1;
        if !(1..=MAX_SPECULATIVE_TOKENS).contains(&k) || end > room as usize {
            return Ok(None);
        }
        let mut turn = self.turn_to_measure().await?;
        turn.draft.forget();
        let vocab = target.config().vocab_size;
        turn.ops.set_sampling(0, &Sampling::greedy(), &[], vocab)?;
        let mut cache = DraftCache::default();
        let mut draft = Draft {
            model: draft.model.as_ref(),
            cache: &mut cache,
            // What is proposed does not matter, and all of it is to be.
            vocabulary: None,
        };
        let context = context as usize;
        Ok(time_drafted_step(&mut turn.ops, target, &mut draft, k, context).await?)
    }

    /// Milliseconds of verify passes of 1, 2, 4, 8 and 16 rows at the start of the context, as many as fit it: the least of some
    /// rounds, without what waiting for a result costs. Divided by that of one row they are v(m), the price of a verify pass
    /// against a plain step. What the KV cache held is forgotten.
    ///
    /// # Errors
    /// If too many requests wait, or whatever the device says.
    pub async fn pass_times(&self) -> Result<Vec<(usize, f64)>, Error> {
        let shared = &self.shared;
        let mut turn = self.turn_to_measure().await?;
        let wait = time_wait(&mut turn.ops, shared.model.as_ref()).await?;
        let mut passes = time_passes(&mut turn.ops, shared.model.as_ref()).await?;
        wait.take_out(&mut passes);
        let mut least: Vec<(usize, f64)> = Vec::new();
        for (rows, ms) in passes {
            match least.iter_mut().find(|(known, _)| *known == rows) {
                Some((_, known)) => *known = known.min(ms),
                None => least.push((rows, ms)),
            }
        }
        Ok(least)
    }
}

/// Row counts with kernels of their own.
pub(crate) const ROW_COUNTS: [usize; 5] = [1, 2, 4, 8, MAX_VERIFY_ROWS];

/// So many rows after `context` positions: what they say does not matter.
pub(crate) fn rows_after(context: Position, rows: usize, vocab: u32) -> Vec<Row> {
    (0..rows as Position)
        .map(|i| Row {
            token: i % vocab,
            position: context + i,
            sequence: 0,
        })
        .collect()
}

/// Runs one pass of `rows` rows after `context` positions and returns its milliseconds.
async fn time_pass<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
    rows: usize,
    context: Position,
) -> Result<f64, OpsError> {
    let clock = Clock::start();
    submit_pass(ops, model, rows, context)?;
    ops.read_chosen().await?;
    Ok(clock.elapsed_ms())
}

/// What a pass of one row chooses: whether the model computes numbers at all.
pub(crate) async fn first_choice<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
) -> Result<Option<Chosen>, OpsError> {
    submit_pass(ops, model, 1, 0)?;
    Ok(ops.read_chosen().await?.first().copied())
}

fn submit_pass<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
    rows: usize,
    context: Position,
) -> Result<(), OpsError> {
    let table = rows_after(context, rows, model.config().vocab_size);
    ops.begin(Phase::Rows, &table, rows);
    let logits = model.forward(ops);
    ops.choose(logits);
    ops.submit()
}

/// Rounds of a measurement at most, and the time after which no further one begins: whoever loads a model waits for this.
const ROUNDS: usize = 3;
const ENOUGH_MS: f64 = 1000.0;

/// Row counts up to this are those of most steps: a single time of them, which may be that of a hiccup, would mislead every choice. They
/// are timed in further rounds even where all of them take longer than that, but not without end.
const FEW_ROWS: usize = 4;
const ENOUGH_OF_FEW_MS: f64 = 5000.0;

/// What passes of 1 to 16 rows cost, as (rows, milliseconds): measured in turn, so that a device whose speed drifts
/// treats all alike. Their kernels ran before, in the check of row invariance.
pub(crate) async fn time_passes<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
) -> Result<Vec<(usize, f64)>, OpsError> {
    let fits = |rows: &usize| *rows <= model.context_length() as usize;
    time_pass(ops, model, 1, 0).await?;
    let mut times = Vec::new();
    let clock = Clock::start();
    for round in 0..ROUNDS {
        let so_far = clock.elapsed_ms();
        for rows in ROW_COUNTS.into_iter().filter(fits) {
            let enough = match rows <= FEW_ROWS {
                true => ENOUGH_OF_FEW_MS,
                false => ENOUGH_MS,
            };
            if round == 0 || so_far < enough {
                times.push((rows, time_pass(ops, model, rows, 0).await?));
            }
        }
    }
    Ok(times)
}

/// What a pass of one row takes, and what it takes longer for being recorded after the one before it was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitTime {
    pass_ms: f64,
    wait_ms: f64,
}

impl WaitTime {
    /// A pass of one row by itself, in milliseconds: what it takes among others that are submitted with it.
    pub(crate) fn pass_ms(self) -> f64 {
        self.pass_ms
    }

    /// As many steps as run while the device is waited for; 0 where waiting costs too little to matter.
    pub(crate) fn steps_a_wait(self) -> usize {
        if self.wait_ms < 0.1 * self.pass_ms {
            return 0;
        }
        let hides = |steps: &usize| *steps as f64 * self.pass_ms >= self.wait_ms;
        [1, 2, 4].into_iter().find(hides).unwrap_or(8)
    }

    /// Takes the wait out of measured passes: in flight they have none.
    pub(crate) fn take_out(self, passes: &mut [(usize, f64)]) {
        for (_, ms) in passes {
            *ms = (*ms - self.wait_ms).max(0.1 * self.pass_ms);
        }
    }
}

/// Measures it: one pass that is read against three that are submitted one after another, in turn, the least of each.
pub(crate) async fn time_wait<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
) -> Result<WaitTime, OpsError> {
    const PASSES: usize = 3;
    time_pass(ops, model, 1, 0).await?;
    let (mut one, mut several) = (f64::INFINITY, f64::INFINITY);
    let clock = Clock::start();
    for _ in 0..ROUNDS {
        one = one.min(time_pass(ops, model, 1, 0).await?);
        let together = Clock::start();
        for _ in 0..PASSES {
            submit_pass(ops, model, 1, 0)?;
        }
        ops.read_chosen().await?;
        several = several.min(together.elapsed_ms());
        if clock.elapsed_ms() > ENOUGH_MS {
            break;
        }
    }
    let pass_ms = ((several - one) / (PASSES - 1) as f64).max(1e-3);
    Ok(WaitTime {
        pass_ms,
        wait_ms: (one - pass_ms).max(0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::WaitTime;

    #[test]
    fn as_many_steps_as_hide_a_wait() {
        for (pass_ms, wait_ms, steps) in [
            (35.0, 0.2, 0),
            (2.0, 0.19, 0),
            (2.0, 0.3, 1),
            (2.0, 2.5, 2),
            (15.0, 100.0, 8),
            (40.0, 100.0, 4),
            (1.0, 100.0, 8),
        ] {
            let wait = WaitTime { pass_ms, wait_ms };
            assert_eq!(wait.steps_a_wait(), steps, "{wait:?}");
        }
        let mut passes = [(1, 102.0), (8, 104.0)];
        let wait = WaitTime {
            pass_ms: 2.0,
            wait_ms: 100.0,
        };
        wait.take_out(&mut passes);
        assert_eq!(passes, [(1, 2.0), (8, 4.0)]);
    }
}
