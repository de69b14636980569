// Slot `rope`: pairs (0,1), (2,3) …
#import lib/rope_turn.wgsl

fn rope_pair(i: u32, half: u32) -> vec2<u32> {
  return vec2<u32>(2u * i, 2u * i + 1u);
}

// The vec4s `d` and `d + half4` of a head, rotated by the angles from `row` of the table on.
fn rope_turn(low: vec4<f32>, high: vec4<f32>, row: u32, d: u32, half4: u32) -> Turned {
  let at = row + 2u * d;
  let other = at + 2u * half4;
  return Turned(
    vec4<f32>(turn(low.xy, table[at]), turn(low.zw, table[at + 1u])),
    vec4<f32>(turn(high.xy, table[other]), turn(high.zw, table[other + 1u])),
  );
}
