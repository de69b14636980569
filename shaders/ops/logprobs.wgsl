// Log-probabilities of the raw logits, before any processing: of the chosen token and of the most probable ones. One workgroup a row.
// out[row] = { (chosen token, ln p) , (token, ln p) of the most probable, … }, 1 + MAX_TOP entries.
#import lib/step.wgsl
#import lib/sequence_state.wgsl

struct Params {
  vocab: u32,
  top: u32, // at most MAX_TOP
  reserved0: u32,
  reserved1: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> logits: array<f32>;          // [rows, vocab]
@group(0) @binding(3) var<storage, read> state: SequenceState;
@group(0) @binding(4) var<storage, read_write> out: array<vec2<u32>>; // [rows, 1 + MAX_TOP]

var<workgroup> floats: array<f32, 256>;
var<workgroup> words: array<u32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) local: u32, @builtin(workgroup_id) workgroup: vec3<u32>) {
  let row = workgroup.x;
  if (row >= step.logit_rows) {
    return; // recorded for more rows than the pass turned out to have
  }
  let base = row * params.vocab;
  let to = row * (1u + MAX_TOP);
  var largest = 0.0;
  var log_sum = 0.0;
  var bound_value = 3.4e38;
  var bound_token = 0u;
  // Round 0 finds the largest logit and with it the sum; every round the next token in order.
  for (var round = 0u; round < max(params.top, 1u); round++) {
    var top = -3.4e38;
    var top_token = 0xffffffffu;
    for (var t = local; t < params.vocab; t += 256u) {
      let logit = logits[base + t];
      let behind_bound = logit < bound_value || (logit == bound_value && t > bound_token);
      if (behind_bound && logit > top) {
        top = logit;
        top_token = t;
      }
    }
    floats[local] = top;
    words[local] = top_token;
    workgroupBarrier();
    for (var stride = 128u; stride > 0u; stride >>= 1u) {
      if (local < stride) {
        let other = local + stride;
        if (floats[other] > floats[local] || (floats[other] == floats[local] && words[other] < words[local])) {
          floats[local] = floats[other];
          words[local] = words[other];
        }
      }
      workgroupBarrier();
    }
    bound_value = floats[0];
    bound_token = words[0];
    workgroupBarrier();
    if (round == 0u) {
      largest = bound_value;
      var sum = 0.0;
      for (var t = local; t < params.vocab; t += 256u) {
        sum += exp(logits[base + t] - largest);
      }
      floats[local] = sum;
      workgroupBarrier();
      for (var stride = 128u; stride > 0u; stride >>= 1u) {
        if (local < stride) {
          floats[local] += floats[local + stride];
        }
        workgroupBarrier();
      }
      log_sum = log(floats[0]);
      workgroupBarrier();
      if (local == 0u) {
        let chosen = state.chosen[row];
        let value = logits[base + min(chosen, params.vocab - 1u)];
        out[to] = vec2<u32>(chosen, bitcast<u32>((value - largest) - log_sum));
      }
    }
    if (local == 0u && round < params.top) {
      out[to + 1u + round] = vec2<u32>(bound_token, bitcast<u32>((bound_value - largest) - log_sum));
    }
  }
}
