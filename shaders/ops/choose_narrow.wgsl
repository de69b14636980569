// The choice of one row under min-p, top-k and top-p; one workgroup a row, no sort.
//
// min-p and top-k are thresholds on the processed logit: the k-th largest is found by bisection over the order-preserving integer
// form of floats. For top-p the best score among what is left is taken, and the mass of the tokens that stand before it is
// summed: below p it is the choice; otherwise it and all that stand behind it are out, and the search goes on above. The first
// token always passes, so this ends; it takes a few rounds, as the noise prefers large logits.
#import lib/step.wgsl
#import lib/sampling.wgsl

struct Params {
  vocab: u32,
  reserved0: u32,
  reserved1: u32,
  reserved2: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> logits: array<f32>;           // [rows, vocab]
@group(0) @binding(5) var<storage, read_write> best: array<vec4<u32>>; // [rows]: score bits, token, non-finite, 0

#import token_rules
#import noise

var<workgroup> floats: array<f32, 256>;
var<workgroup> words: array<u32, 256>;
var<workgroup> values: array<f32, 256>;
var<workgroup> total_float: f32;
var<workgroup> total_word: u32;
var<workgroup> total_value: f32;

// Integers in the order of the floats.
fn ordered(value: f32) -> u32 {
  let bits = bitcast<u32>(value);
  return bits ^ select(0x80000000u, 0xffffffffu, (bits & 0x80000000u) != 0u);
}

fn sum_floats(local: u32, value: f32) -> f32 {
  floats[local] = value;
  workgroupBarrier();
  for (var stride = 128u; stride > 0u; stride >>= 1u) {
    if (local < stride) {
      floats[local] += floats[local + stride];
    }
    workgroupBarrier();
  }
  if (local == 0u) {
    total_float = floats[0];
  }
  return workgroupUniformLoad(&total_float);
}

fn sum_words(local: u32, value: u32) -> u32 {
  words[local] = value;
  workgroupBarrier();
  for (var stride = 128u; stride > 0u; stride >>= 1u) {
    if (local < stride) {
      words[local] += words[local + stride];
    }
    workgroupBarrier();
  }
  if (local == 0u) {
    total_word = words[0];
  }
  return workgroupUniformLoad(&total_word);
}

fn max_floats(local: u32, value: f32) -> f32 {
  floats[local] = value;
  workgroupBarrier();
  for (var stride = 128u; stride > 0u; stride >>= 1u) {
    if (local < stride) {
      floats[local] = max(floats[local], floats[local + stride]);
    }
    workgroupBarrier();
  }
  if (local == 0u) {
    total_float = floats[0];
  }
  return workgroupUniformLoad(&total_float);
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) local: u32, @builtin(workgroup_id) workgroup: vec3<u32>) {
  let row = workgroup.x;
  if (row >= step.logit_rows) {
    return;
  }
  let in_pass = step.first_logit_row + row;
  let entry = step.table[in_pass];
  let s = sampling[entry.z];
  let key = noise_key(s, entry.y + 1u);
  let base = row * params.vocab;

  var non_finite = 0u;
  var largest_here = MASKED;
  for (var t = local; t < params.vocab; t += 256u) {
    let logit = logits[base + t];
    non_finite |= select(0u, 1u, is_non_finite(logit));
    largest_here = max(largest_here, ruled(logit, s, in_pass, t));
  }
  let any_bad = sum_words(local, non_finite);
  let largest = max_floats(local, largest_here);
  var least = max(largest + s.log_min_p, MASKED);

  // sampling is read per row, so this is uniform in the workgroup; the load says so to the compiler.
  if (local == 0u) {
    total_word = s.top_k;
  }
  let top_k = workgroupUniformLoad(&total_word);
  if (top_k > 0u && top_k < params.vocab) {
    var kth = 0u; // the largest bound with at least k logits at or above it, built from the top bit down
    for (var bit = 0u; bit < 32u; bit++) {
      let bound = kth | (0x80000000u >> bit);
      var count = 0u;
      for (var t = local; t < params.vocab; t += 256u) {
        count += select(0u, 1u, ordered(ruled(logits[base + t], s, in_pass, t)) >= bound);
      }
      if (sum_words(local, count) >= top_k) {
        kth = bound;
      }
    }
    let bits = kth ^ select(0xffffffffu, 0x80000000u, (kth & 0x80000000u) != 0u);
    least = max(least, bitcast<f32>(bits));
  }

  var mass_here = 0.0;
  for (var t = local; t < params.vocab; t += 256u) {
    let value = ruled(logits[base + t], s, in_pass, t);
    if (value >= least && value > MASKED) {
      mass_here += exp(value - largest);
    }
  }
  let limit = s.top_p * sum_floats(local, mass_here);

  // The search goes on among the tokens before (bound_value, bound_token); at first that is all of them.
  var bound_value = MASKED;
  var bound_token = 0xffffffffu;
  var score = MASKED;
  var token = 0u;
  for (var round = 0u; round < 4096u; round++) {
    var top = -3.4e38;
    var top_token = 0xffffffffu;
    var top_value = MASKED;
    for (var t = local; t < params.vocab; t += 256u) {
      let value = ruled(logits[base + t], s, in_pass, t);
      let before_bound = value > bound_value || (value == bound_value && t < bound_token);
      if (value >= least && before_bound) {
        let here = noised(value, s, key, t);
        if (here > top) {
          top = here;
          top_token = t;
          top_value = value;
        }
      }
    }
    floats[local] = top;
    words[local] = top_token;
    values[local] = top_value;
    workgroupBarrier();
    for (var stride = 128u; stride > 0u; stride >>= 1u) {
      if (local < stride) {
        let other = local + stride;
        if (floats[other] > floats[local] || (floats[other] == floats[local] && words[other] < words[local])) {
          floats[local] = floats[other];
          words[local] = words[other];
          values[local] = values[other];
        }
      }
      workgroupBarrier();
    }
    if (local == 0u) {
      total_float = floats[0];
      total_word = words[0];
      total_value = values[0];
    }
    score = workgroupUniformLoad(&total_float);
    token = workgroupUniformLoad(&total_word);
    let value_of_token = workgroupUniformLoad(&total_value);
    var mass_before = 0.0;
    var count_before = 0u;
    for (var t = local; t < params.vocab; t += 256u) {
      let value = ruled(logits[base + t], s, in_pass, t);
      if (value >= least && (value > value_of_token || (value == value_of_token && t < token))) {
        mass_before += exp(value - largest);
        count_before += 1u;
      }
    }
    let mass = sum_floats(local, mass_before);
    let count = sum_words(local, count_before);
    if (mass < limit || count == 0u) {
      break;
    }
    bound_value = value_of_token;
    bound_token = token;
  }
  if (local == 0u) {
    best[row] = vec4<u32>(bitcast<u32>(score), token, any_bad, 0u);
  }
}
