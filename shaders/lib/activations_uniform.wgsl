// Slot `activations`: activations_broadcast from a uniform buffer, which lavapipe reads faster than a storage buffer
// (docs/decisions/0007). It begins at the dispatch's first row and holds 64 KiB, what every device binds.
@group(0) @binding(2) var<uniform> x: array<vec4<f32>, 4096>; // [rows, blocks, 8], rows from params.first_row on

// What a lane brings of a block.
struct Mine {
#repeat v 8/LANES
  x{v}: vec4<f32>,
#end
}

fn activation_begin(row: u32, block: u32, lane: u32) -> Mine {
  let at = ((row - params.first_row) * params.blocks + block) * 8u + (lane & (LANES - 1u));
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
