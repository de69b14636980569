// The best (score, token) of one slice of the vocabulary for one row, where score = processed logit + noise. Ties go to the lowest
// id: threads walk up, and only a strictly larger score replaces. Non-finite logits are found by their exponent bits.
#import lib/step.wgsl
#import lib/sampling.wgsl

struct Params {
  vocab: u32,
  slice: u32,  // tokens a workgroup
  slices: u32,
  reserved: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> logits: array<f32>;           // [rows, vocab]
@group(0) @binding(5) var<storage, read_write> best: array<vec4<u32>>; // [rows, slices]: score bits, token, non-finite, 0

#import token_rules
#import noise

var<workgroup> best_score: array<f32, 64>;
var<workgroup> best_token: array<u32, 64>;
var<workgroup> bad: array<u32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) local: u32, @builtin(workgroup_id) workgroup: vec3<u32>) {
  let row = workgroup.y;
  if (row >= step.logit_rows) {
    return;
  }
  let in_pass = step.first_logit_row + row;
  let entry = step.table[in_pass];
  let s = sampling[entry.z];
  let key = noise_key(s, entry.y + 1u);
  let first = workgroup.x * params.slice;
  let end = min(first + params.slice, params.vocab);
  var top = -3.4e38;
  var token = first + local;
  var non_finite = 0u;
  for (var t = first + local; t < end; t += 64u) {
    let logit = logits[row * params.vocab + t];
    non_finite |= select(0u, 1u, is_non_finite(logit));
    let score = noised(ruled(logit, s, in_pass, t), s, key, t);
    if (score > top) {
      top = score;
      token = t;
    }
  }
  best_score[local] = top;
  best_token[local] = token;
  bad[local] = non_finite;
  workgroupBarrier();
  if (local == 0u) {
    for (var i = 1u; i < 64u; i++) {
      non_finite |= bad[i];
      if (best_score[i] > top || (best_score[i] == top && best_token[i] < token)) {
        top = best_score[i];
        token = best_token[i];
      }
    }
    best[row * params.slices + workgroup.x] = vec4<u32>(bitcast<u32>(top), token, non_finite, 0u);
  }
}
