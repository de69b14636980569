// matmul for the prefill family on hardware: a workgroup computes 64 outputs for 32 rows. Weights are decoded once into workgroup
// memory, a block of 32 inputs at a time, and every row of the pass uses them.
//
// Thread t decodes slot t of the tile; then thread (tx, ty) sums R = 8 slots for C = 4 rows. A row's sum runs over the blocks in order
// and over a block's 32 weights in order, whatever rows stand beside it. Where PAIR = 2, slots alternate gate and up of one output.
#import lib/step.wgsl
#import glu

#import lib/matmul_inputs.wgsl
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;       // [rows, blocks, 8]

#import quant

const SLOTS = 64u;
const ROWS = 32u;
var<workgroup> tile_w: array<f32, 32u * SLOTS>; // [input, slot]
var<workgroup> tile_x: array<f32, 32u * ROWS>;  // [input, row]

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) local: u32, @builtin(workgroup_id) workgroup: vec3<u32>) {
  let rows = rows_of(params.row_set);
  let keeps = true;
  let tile = workgroup.y + workgroup.z * params.grid_y;
  let first_output = tile * (SLOTS / PAIR);
  let tx = local & 7u;
  let ty = local >> 3u;
  let first_row = workgroup.x * ROWS + ty * C;
#repeat r R
  let output_{r} = first_output + (tx * R + {r}u) / PAIR;
  let live_{r} = output_{r} < params.outputs;
#repeat c C
  var acc_{r}_{c} = 0.0;
#end
#end
#repeat c C
  let row_{c} = min(first_row + {c}u, rows - 1u);
#end
  // What this thread decodes.
  let decoded = min(first_output + local / PAIR, params.groups * 8u - 1u);
  let decoded_group = (decoded >> 3u) + (local % PAIR) * params.groups;

  for (var block = 0u; block < params.blocks; block++) {
    let weights = load_block(decoded_group * params.blocks + block, decoded & 7u);
#repeat j 8
    {
      let w = weights_{j}(weights);
      tile_w[{j*4}u * SLOTS + local] = w.x;
      tile_w[{j*4+1}u * SLOTS + local] = w.y;
      tile_w[{j*4+2}u * SLOTS + local] = w.z;
      tile_w[{j*4+3}u * SLOTS + local] = w.w;
    }
#end
    // 32 rows of 8 vec4: four a thread.
#repeat i 4
    {
      let row = local / 2u;
      let at = (local & 1u) * 4u + {i}u;
      let v = x[(min(workgroup.x * ROWS + row, rows - 1u) * params.blocks + block) * 8u + at];
      tile_x[(at * 4u) * ROWS + row] = v.x;
      tile_x[(at * 4u + 1u) * ROWS + row] = v.y;
      tile_x[(at * 4u + 2u) * ROWS + row] = v.z;
      tile_x[(at * 4u + 3u) * ROWS + row] = v.w;
    }
#end
    workgroupBarrier();
    for (var k = 0u; k < 32u; k++) {
#repeat c C
      let x_{c} = tile_x[k * ROWS + ty * C + {c}u];
#end
#repeat r R
      let w_{r} = tile_w[k * SLOTS + tx * R + {r}u];
#repeat c C
      acc_{r}_{c} = fma(w_{r}, x_{c}, acc_{r}_{c});
#end
#end
    }
    workgroupBarrier();
  }
#import epilogue
}
