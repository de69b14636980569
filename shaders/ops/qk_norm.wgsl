// A head of q or k / sqrt(mean(x²) + eps) * weight, in place. One workgroup a head of a row; thread t sums the vec4 columns t,
// t + WORKGROUP, …
#import lib/step.wgsl

struct Params {
  heads: u32,
  kv_heads: u32,
  head_dim4: u32, // width of a head / 4
  eps: f32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read_write> qkv: array<vec4<f32>>; // [rows, (heads + 2 kv_heads) * head_dim4]
@group(0) @binding(3) var<storage, read> weight: array<vec4<f32>>;    // [2, head_dim4]: of q, of k

var<workgroup> partial: array<f32, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(local_invocation_index) local: u32, @builtin(workgroup_id) workgroup: vec3<u32>) {
  let head = workgroup.x;
  let row = workgroup.y;
  if (row >= step.rows) {
    return;
  }
  let at = (row * (params.heads + 2u * params.kv_heads) + head) * params.head_dim4;
  var sum = 0.0;
  for (var i = local; i < params.head_dim4; i += WORKGROUP) {
    let v = qkv[at + i];
    sum = fma(v.x, v.x, sum);
    sum = fma(v.y, v.y, sum);
    sum = fma(v.z, v.z, sum);
    sum = fma(v.w, v.w, sum);
  }
  partial[local] = sum;
  workgroupBarrier();
  var total = 0.0;
  for (var i = 0u; i < WORKGROUP; i++) {
    total += partial[i];
  }
  let scale = inverseSqrt(total / f32(params.head_dim4 * 4u) + params.eps);
  let weight_at = select(0u, params.head_dim4, head >= params.heads);
  for (var i = local; i < params.head_dim4; i += WORKGROUP) {
    qkv[at + i] = qkv[at + i] * scale * weight[weight_at + i];
  }
}
