// What a rotation does to a pair, and the type of two vec4s that were rotated. Every product that is added is in an fma, so that no
// compiler is left to choose.
struct Turned {
  low: vec4<f32>,
  high: vec4<f32>,
}

// rotation: cos, sin.
fn turn(pair: vec2<f32>, rotation: vec2<f32>) -> vec2<f32> {
  return vec2<f32>(fma(pair.x, rotation.x, -(pair.y * rotation.y)), fma(pair.y, rotation.x, pair.x * rotation.y));
}
