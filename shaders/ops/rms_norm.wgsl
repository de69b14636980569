// x[row, :] / sqrt(mean(x²) + eps) * weight, which the slot `norm` stores or adds. One workgroup a row; thread t sums the vec4
// columns t, t + WORKGROUP, …
#import lib/step.wgsl

struct Params {
  cols4: u32, // columns / 4
  eps: f32,
  in_row_set: u32,
  out_row_set: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;         // [rows, cols / 4]
@group(0) @binding(3) var<storage, read> weight: array<vec4<f32>>;    // [cols / 4]
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>; // [rows, cols / 4]

#import norm

var<workgroup> partial: array<f32, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(local_invocation_index) local: u32, @builtin(workgroup_id) workgroup: vec3<u32>) {
  let row = workgroup.x;
  if (row >= rows_of(params.out_row_set)) {
    return;
  }
  var source = row;
  if (params.in_row_set != params.out_row_set) {
    source = pass_row(params.out_row_set, row);
  }
  var sum = 0.0;
  for (var i = local; i < params.cols4; i += WORKGROUP) {
    let v = x[source * params.cols4 + i];
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
  let scale = inverseSqrt(total / f32(params.cols4 * 4u) + params.eps);
  for (var i = local; i < params.cols4; i += WORKGROUP) {
    keep(row * params.cols4 + i, x[source * params.cols4 + i] * scale * weight[i]);
  }
}
