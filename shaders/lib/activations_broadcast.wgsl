// Slot `activations`: the first eight lanes of a subgroup load one vec4 each, a whole block, and hand it round.
// Needs a subgroup of at least 8 lanes that all stand at the same row and block.
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>; // [rows, blocks, 8]

fn activation_begin(row: u32, block: u32, lane: u32) -> vec4<f32> {
  return x[(row * params.blocks + block) * 8u + (lane & 7u)];
}
#repeat j 8
fn activation_{j}(mine: vec4<f32>, row: u32, block: u32) -> vec4<f32> {
  return subgroupBroadcast(mine, {j}u);
}
#end
