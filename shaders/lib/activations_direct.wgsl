// Slot `activations`: every thread loads the activations itself.
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>; // [rows, blocks, 8]

fn activation_begin(row: u32, block: u32, lane: vec3<u32>) -> vec4<f32> {
  return vec4<f32>();
}
#repeat j 8
fn activation_{j}(mine: vec4<f32>, row: u32, block: u32) -> vec4<f32> {
  return x[(row * params.blocks + block) * 8u + {j}u];
}
#end
