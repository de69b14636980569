// Slot `glu`: x * sigmoid(x). exp(-x) overflows to infinity for very negative x, which would be 0 by division but may be assumed away:
// the argument is clamped instead, where the result is 0 to f32 anyway.
fn activate(v: f32) -> f32 {
  return v / (1.0 + exp(min(-v, 80.0)));
}
