// The rows of the next pass: as `Step`, but written.
struct NextRows {
  rows: u32,
  logit_rows: u32,
  first_logit_row: u32,
  reserved: u32,
  table: array<vec4<u32>, MAX_STEP_ROWS>,
}
