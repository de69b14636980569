// Slot `token_rules`: no sequence of the pass has logit biases, penalties or a minimum of tokens.
fn ruled(logit: f32, s: Sampling, pass_row: u32, token: u32) -> f32 {
  return select(logit / s.temperature, logit, s.temperature == 0.0);
}
