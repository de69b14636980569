// Attention of one row over one span of SPAN absolute positions, for the GQA query heads that share a KV head.
// Spans are fixed, so a row's split depends on its own position alone. Leaves, for attention_reduce:
// part[row, head, span] = head_dim values sum(e·v), then max, then sum(e), with e = exp(score - max).
#import lib/step.wgsl
#import kv

struct Params {
  heads: u32,
  kv_heads: u32,
  context: u32,
  max_spans: u32,
  scale: f32,
  reserved0: u32,
  reserved1: u32,
  reserved2: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;          // [rows, (heads + 2 kv_heads) * HEAD_DIM4]
@group(0) @binding(3) var<storage, read> keys: array<vec4<KvScalar>>;    // [sequences, kv_heads, context, HEAD_DIM4]
@group(0) @binding(4) var<storage, read> values: array<vec4<KvScalar>>;  // the same
@group(0) @binding(5) var<storage, read_write> part: array<vec4<f32>>;   // [rows, heads, max_spans, HEAD_DIM4 + 1]

var<workgroup> scores: array<f32, SCORES>; // [GQA, SPAN]

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(local_invocation_index) local: u32, @builtin(workgroup_id) workgroup: vec3<u32>) {
  let span = workgroup.x;
  let kv_head = workgroup.y;
  let row = workgroup.z;
  let entry = step.table[row];
  let first = span * SPAN;
  if (first > entry.y) {
    return;
  }
  let live = min(entry.y + 1u - first, SPAN);
  let cache = ((entry.z * params.kv_heads + kv_head) * params.context + first) * HEAD_DIM4;
  let query = (row * (params.heads + 2u * params.kv_heads) + kv_head * GQA) * HEAD_DIM4;

  for (var p = local; p < live; p += WORKGROUP) {
#repeat g GQA
    var s_{g} = 0.0;
#end
    for (var d = 0u; d < HEAD_DIM4; d++) {
      let k = vec4<f32>(keys[cache + p * HEAD_DIM4 + d]);
#repeat g GQA
      {
        let q = qkv[query + {g}u * HEAD_DIM4 + d];
        s_{g} = fma(q.x, k.x, s_{g});
        s_{g} = fma(q.y, k.y, s_{g});
        s_{g} = fma(q.z, k.z, s_{g});
        s_{g} = fma(q.w, k.w, s_{g});
      }
#end
    }
#repeat g GQA
    scores[{g}u * SPAN + p] = s_{g} * params.scale;
#end
  }
  workgroupBarrier();

  for (var o = local; o < GQA * HEAD_DIM4; o += WORKGROUP) {
    let g = o / HEAD_DIM4;
    let d = o - g * HEAD_DIM4;
    var largest = -3.0e38;
    for (var p = 0u; p < live; p++) {
      largest = max(largest, scores[g * SPAN + p]);
    }
    var sum = 0.0;
    var acc = vec4<f32>();
    for (var p = 0u; p < live; p++) {
      let e = exp(scores[g * SPAN + p] - largest);
      sum += e;
      acc = fma(vec4<f32>(e), vec4<f32>(values[cache + p * HEAD_DIM4 + d]), acc);
    }
    let to = ((row * params.heads + kv_head * GQA + g) * params.max_spans + span) * (HEAD_DIM4 + 1u);
    part[to + d] = acc;
    if (d == 0u) {
      part[to + HEAD_DIM4] = vec4<f32>(largest, sum, 0.0, 0.0);
    }
  }
}
