// Slot `activations`: activations_broadcast from a uniform buffer, which lavapipe reads faster than a storage buffer
// (docs/decisions/0007). It begins at the dispatch's first row and holds 64 KiB, what every device binds.
@group(0) @binding(2) var<uniform> x: array<vec4<f32>, 4096>; // [rows, blocks, 8], rows from params.first_row on

fn activation_begin(row: u32, block: u32, lane: u32) -> vec4<f32> {
  return x[((row - params.first_row) * params.blocks + block) * 8u + (lane & 7u)];
}
#repeat j 8
fn activation_{j}(mine: vec4<f32>, row: u32, block: u32) -> vec4<f32> {
  return subgroupBroadcast(mine, {j}u);
}
#end
