// Slot `activations`: the first LANES lanes of a subgroup load a whole block, one vec4 each or two, and hand it round.
// Needs a subgroup of at least LANES lanes, 4 or 8, that all stand at the same row and block.
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>; // [rows, blocks, 8]

// What a lane brings of a block.
struct Mine {
#repeat v 8/LANES
  x{v}: vec4<f32>,
#end
}

fn activation_begin(row: u32, block: u32, lane: u32) -> Mine {
  let at = (row * params.blocks + block) * 8u + (lane & (LANES - 1u));
  return Mine(
#repeat v 8/LANES
    x[at + {v}u * LANES],
#end
  );
}
#repeat j 8
fn activation_{j}(mine: Mine, row: u32, block: u32) -> vec4<f32> {
  return subgroupBroadcast(mine.x{j/LANES}, {j%LANES}u);
}
#end
