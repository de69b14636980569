//! Measuring what a pass costs on the device.

use foretoken_core::{Clock, LanguageModel, MAX_VERIFY_ROWS, Ops, OpsError, Phase, Position, Row};
use foretoken_decode::AbortSignal;

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
        let abort = AbortSignal::new();
        let ticket = shared.queue.join(abort.clone()).ok_or(Error::Busy)?;
        // The signal is this function's own and is never raised.
        let Some(mut turn) = ticket.turn(&abort).await else {
            return Err(Error::Busy);
        };
        turn.session.forget();
        Ok(time_pass(&mut turn.ops, shared.model.as_ref(), rows, context).await?)
    }
}

/// Runs one pass of `rows` rows after `context` positions and returns its milliseconds.
async fn time_pass<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
    rows: usize,
    context: Position,
) -> Result<f64, OpsError> {
    let table: Vec<Row> = (0..rows as Position)
        .map(|i| Row {
            token: i % model.config().vocab_size,
            position: context + i,
            sequence: 0,
        })
        .collect();
    let clock = Clock::start();
    ops.begin(Phase::Rows, &table, rows);
    let logits = model.forward(ops);
    ops.choose(logits);
    ops.submit()?;
    ops.read_chosen().await?;
    Ok(clock.elapsed_ms())
}

/// What passes of 1 to 16 rows cost, as (rows, milliseconds): measured in turn, so that a device whose speed drifts
/// treats all alike, and after one round that builds what they need.
pub(crate) async fn time_passes<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
) -> Result<Vec<(usize, f64)>, OpsError> {
    const ROUNDS: usize = 3;
    let fits = |rows: &usize| *rows <= model.context_length() as usize;
    let mut times = Vec::new();
    for round in 0..=ROUNDS {
        for rows in [1, 2, 4, 8, 16].into_iter().filter(fits) {
            let ms = time_pass(ops, model, rows, 0).await?;
            if round > 0 {
                times.push((rows, ms));
            }
        }
    }
    Ok(times)
}
