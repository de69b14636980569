// The row table of the pass: what every kernel knows of its rows. The host (later the device) writes it once a step.
struct Step {
  rows: u32,            // rows of the pass
  logit_rows: u32,      // the last so many of them get logits
  first_logit_row: u32, // rows - logit_rows
  reserved: u32,
  table: array<vec4<u32>, MAX_STEP_ROWS>, // token, position, sequence, 0
}
@group(0) @binding(0) var<uniform> step: Step;

const ROW_SET_ALL = 0u;
const ROW_SET_LOGITS = 1u;

// Rows of an activation that holds the given set.
fn rows_of(row_set: u32) -> u32 {
  return select(step.rows, step.logit_rows, row_set == ROW_SET_LOGITS);
}

// The row of the pass behind row `row` of such an activation.
fn pass_row(row_set: u32, row: u32) -> u32 {
  return row + select(0u, step.first_logit_row, row_set == ROW_SET_LOGITS);
}
