// Slot `glu`: x / 2 * (1 + tanh(u)) with u = sqrt(2 / pi) * (x + 0.044715 x³), which is x * sigmoid(2 u): no tanh, which some devices
// leave undefined for large arguments. exp's argument is clamped as in glu_silu.
fn activate(v: f32) -> f32 {
  let u = 0.7978845608 * fma(0.044715 * v * v, v, v);
  return v / (1.0 + exp(min(-2.0 * u, 80.0)));
}
