// Combines a row's spans in ascending order: out[row, head, :] = sum over spans of exp(max_s - max)·acc_s / the same of sum_s.
#import lib/step.wgsl

struct Params {
  heads: u32,
  max_spans: u32,
  reserved0: u32,
  reserved1: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> part: array<vec4<f32>>;      // [rows, heads, max_spans, HEAD_DIM4 + 1]
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>; // [rows, heads, HEAD_DIM4]

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= params.heads * HEAD_DIM4 || id.y >= step.rows) {
    return;
  }
  let row = id.y;
  let head = id.x / HEAD_DIM4;
  let d = id.x - head * HEAD_DIM4;
  let spans = step.table[row].y / SPAN + 1u;
  var at = (row * params.heads + head) * params.max_spans * (HEAD_DIM4 + 1u);
  var largest = -3.0e38;
  var sum = 0.0;
  var acc = vec4<f32>();
  for (var s = 0u; s < spans; s++) {
    let tail = part[at + HEAD_DIM4];
    let next = max(largest, tail.x);
    let old_factor = exp(largest - next);
    let new_factor = exp(tail.x - next);
    sum = sum * old_factor + tail.y * new_factor;
    acc = acc * old_factor + part[at + d] * new_factor;
    largest = next;
    at += HEAD_DIM4 + 1u;
  }
  out[(row * params.heads + head) * HEAD_DIM4 + d] = acc / sum;
}
