// Combines a row's spans in ascending order: a thread one vec4 of one head.
#import lib/step.wgsl

struct Params {
  heads: u32,
  max_spans: u32,
  window: u32,
  reserved1: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> part: array<vec4<f32>>;      // [rows, heads, max_spans, HEAD_DIM4 + 1]
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>; // [rows, heads, HEAD_DIM4]

#import lib/attention_combine.wgsl

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= params.heads * HEAD_DIM4 || id.y >= step.rows) {
    return;
  }
  let head = id.x / HEAD_DIM4;
  let d = id.x - head * HEAD_DIM4;
  out[(id.y * params.heads + head) * HEAD_DIM4 + d] = combined(id.y, head, d);
}
