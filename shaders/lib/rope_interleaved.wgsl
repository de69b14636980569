// Slot `rope`: pairs (0,1), (2,3) …
fn rope_pair(i: u32, half: u32) -> vec2<u32> {
  return vec2<u32>(2u * i, 2u * i + 1u);
}
