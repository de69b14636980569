// Slot `rope`: pairs (i, i + head_dim / 2).
#import lib/rope_turn.wgsl

fn rope_pair(i: u32, half: u32) -> vec2<u32> {
  return vec2<u32>(i, i + half);
}

// The vec4s `d` and `d + half4` of a head, rotated by the angles from `row` of the table on.
fn rope_turn(low: vec4<f32>, high: vec4<f32>, row: u32, d: u32, half4: u32) -> Turned {
  let at = row + 4u * d;
  let x = turn(vec2<f32>(low.x, high.x), table[at]);
  let y = turn(vec2<f32>(low.y, high.y), table[at + 1u]);
  let z = turn(vec2<f32>(low.z, high.z), table[at + 2u]);
  let w = turn(vec2<f32>(low.w, high.w), table[at + 3u]);
  return Turned(vec4<f32>(x.x, y.x, z.x, w.x), vec4<f32>(x.y, y.y, z.y, w.y));
}
