// Slot `activations`: activations_direct from a uniform buffer, as activations_uniform reads it: where all threads of a subgroup want the
// same words, a driver that computes on the processor loads them once.
@group(0) @binding(2) var<uniform> x: array<vec4<f32>, 4096>; // [rows, blocks, 8], rows from params.first_row on

fn activation_begin(row: u32, block: u32, lane: vec3<u32>) -> vec4<f32> {
  return vec4<f32>();
}
#repeat j 8
fn activation_{j}(mine: vec4<f32>, row: u32, block: u32) -> vec4<f32> {
  return x[((row - params.first_row) * params.blocks + block) * 8u + {j}u];
}
#end
