//! The load-time check that a row's bits do not depend on the rows around it.

use foretoken_core::{
    LanguageModel, MAX_PREFILL_ROWS, MAX_VERIFY_ROWS, Ops, OpsError, Phase, Position, Row, TokenId,
};

/// A logit that came out differently when other rows stood around its row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowMismatch {
    /// Rows of the pass that differed from the full one.
    pub rows: usize,
    /// The row's position, the same in both passes.
    pub position: Position,
    /// The first column that differed.
    pub column: usize,
    /// The value in the full pass.
    pub expected: f32,
    /// The value in the smaller pass.
    pub found: f32,
}

impl std::fmt::Display for RowMismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "position {} in a pass of {} rows: logit {} is {:e} where the full pass has {:e}",
            self.position, self.rows, self.column, self.found, self.expected
        )
    }
}

/// Half of the rows stand before position 128.
const FIRST_POSITION: Position = 120;

/// Passes that end before it.
const FIRST_ROWS: [usize; 4] = [8, 4, 2, 1];

/// Runs [`LanguageModel::forward_probe`] over 16 fixed tokens as one pass of the row family, then its
/// last 15, 14, … 1 rows as passes of their own, and compares every logit bit by bit. The last rows,
/// because a token then stands at another index of the pass as well as among fewer rows: in decoding
/// it is row 0 of one, in verification row j of up to 16. Then its first 8, 4, 2 and 1 rows. `None`: all equal.
///
/// The rows stand on both sides of position 128, where the context reaches: devices cut attention at such places, and may take
/// other kernels where all of a pass stands before one. Positions before the rows' are filled as a prompt's; nothing may live in
/// sequence 0.
///
/// # Errors
/// What the device says.
pub async fn check_row_invariance<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
) -> Result<Option<RowMismatch>, OpsError> {
    let vocab = model.config().vocab_size;
    let full_rows = MAX_VERIFY_ROWS.min(model.context_length() as usize);
    let first = (model.context_length() - full_rows as u32).min(FIRST_POSITION);
    let row = |position| Row {
        token: probe_token(position, vocab),
        position,
        sequence: 0,
    };
    let before: Vec<Row> = (0..first).map(row).collect();
    for rows in before.chunks(MAX_PREFILL_ROWS) {
        ops.begin(Phase::Prefill, rows, 0);
        model.forward_probe(ops);
        ops.submit()?;
    }
    let rows: Vec<Row> = (first..first + full_rows as u32).map(row).collect();
    let full = probe(ops, model, &rows).await?;
    let columns = full.len() / full_rows;
    let last_rows = (1..full_rows).map(|first| first..full_rows);
    let first_rows = FIRST_ROWS.into_iter().filter(|rows| *rows < full_rows);
    for part in last_rows.chain(first_rows.map(|rows| 0..rows)) {
        let found = probe(ops, model, &rows[part.clone()]).await?;
        let expected = &full[part.start * columns..part.end * columns];
        if let Some(i) = (0..expected.len()).find(|&i| expected[i].to_bits() != found[i].to_bits())
        {
            return Ok(Some(RowMismatch {
                rows: part.len(),
                position: rows[part.start + i / columns].position,
                column: i % columns,
                expected: expected[i],
                found: found[i],
            }));
        }
    }
    Ok(None)
}

async fn probe<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
    rows: &[Row],
) -> Result<Vec<f32>, OpsError> {
    ops.begin(Phase::Rows, rows, rows.len());
    let logits = model.forward_probe(ops);
    ops.submit()?;
    ops.read_activation(logits).await
}

/// Tokens spread over the vocabulary, so that the rows differ.
fn probe_token(position: Position, vocab: u32) -> TokenId {
    (position.wrapping_mul(0x9E37_79B1) >> 7) % vocab
}
