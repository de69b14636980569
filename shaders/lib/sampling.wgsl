// How each sequence's tokens are chosen. The definition is crates/core/src/sampling.
struct Sampling {
  temperature: f32, // 0: greedy
  top_k: u32,       // 0: off
  top_p: f32,       // 1: off
  log_min_p: f32,   // MASKED: off
  repetition_penalty: f32,
  frequency_penalty: f32,
  presence_penalty: f32,
  min_tokens: u32,
  seed_low: u32,
  seed_high: u32,
  choice: u32,
  prompt_len: u32, // position of the first output token
}
@group(0) @binding(3) var<storage, read> sampling: array<Sampling>; // [sequences]

const MASKED = -3.0e38;

fn is_non_finite(logit: f32) -> bool {
  return (bitcast<u32>(logit) & 0x7f800000u) == 0x7f800000u;
}
