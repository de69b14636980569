// Slot `noise`: Gumbel noise by a hash of seed, choice, position and token (crates/core/src/sampling/noise.rs).
fn mix(value: u32) -> u32 {
  var x = value;
  x ^= x >> 16u;
  x *= 0x7feb352du;
  x ^= x >> 15u;
  x *= 0x846ca68bu;
  return x ^ (x >> 16u);
}

// The key of the token that will stand at `position`.
fn noise_key(s: Sampling, position: u32) -> vec2<u32> {
  let low = mix(s.seed_low ^ 0x9e3779b9u);
  let high = mix(s.seed_high ^ low);
  let choice = mix((s.choice + 0x85ebca6bu) ^ high);
  let add = mix((position * 0x9e3779b1u) ^ choice);
  return vec2<u32>(add, mix(add ^ low ^ 0xc2b2ae35u));
}

fn noised(logit: f32, s: Sampling, key: vec2<u32>, token: u32) -> f32 {
  if (s.temperature == 0.0 || logit == MASKED) {
    return logit;
  }
  let hash = mix(mix(token * 0x9e3779b1u + key.x) ^ key.y);
  let w = min((f32(hash) + 0.5) * 2.3283064365386963e-10, 0.99999994);
  // The series where log(1 - w) would lose the bits of w.
  let e = select(-log(1.0 - w), w + w * w * 0.5 + w * w * w / 3.0, w < 0.015625);
  return logit - log(e);
}
