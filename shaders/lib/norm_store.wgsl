// Slot `norm`: out = the norm.
fn keep(at: u32, normed: vec4<f32>) {
  out[at] = normed;
}
