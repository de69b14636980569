//! The row table of the pass that is being recorded.

use foretoken_core::{MAX_VERIFY_ROWS, Phase, Row, RowSet};

/// The rows given to `begin`.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    rows: Vec<Row>,
    logit_rows: usize,
}

impl Pass {
    /// Checks the limits of the phase.
    pub(crate) fn new(phase: Phase, rows: &[Row], logit_rows: usize) -> Self {
        assert!(
            (1..=phase.max_rows()).contains(&rows.len()),
            "begin: {} rows in a pass of {phase:?}, which takes 1..={}",
            rows.len(),
            phase.max_rows()
        );
        assert!(
            logit_rows <= rows.len().min(MAX_VERIFY_ROWS),
            "begin: logits wanted of {logit_rows} of {} rows",
            rows.len()
        );
        Self {
            rows: rows.to_vec(),
            logit_rows,
        }
    }

    /// All rows, in order.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The rows whose logits are wanted.
    pub(crate) fn logit_rows(&self) -> &[Row] {
        &self.rows[self.rows.len() - self.logit_rows..]
    }

    /// How many rows of this pass `set` names.
    pub(crate) fn count(&self, set: RowSet) -> usize {
        match set {
            RowSet::All => self.rows.len(),
            RowSet::Logits => self.logit_rows,
        }
    }
}
