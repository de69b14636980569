// Slot `norm`: out += the norm, the residual stream.
fn keep(at: u32, normed: vec4<f32>) {
  out[at] = out[at] + normed;
}
