// Slot `rope`: pairs (i, i + head_dim / 2).
fn rope_pair(i: u32, half: u32) -> vec2<u32> {
  return vec2<u32>(i, i + half);
}
