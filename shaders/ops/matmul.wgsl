// out[row, o] = sum over i of w[o, i] * x[row, i]
//
// One thread computes R outputs for C rows in registers: weights are decoded once and used for all C. Lane l of eight owns output
// l of a group of eight interleaved outputs, so a group's loads are contiguous. SPLIT threads share an output: thread s sums blocks
// s, s + SPLIT, … in order and a block's 32 weights in order, and the slot `combine` adds the threads' sums in order. None of it
// depends on R, C or the row count: that is what makes rows bit-invariant.
#import lib/step.wgsl
#import glu

#import lib/matmul_inputs.wgsl

var<workgroup> partial: array<f32, R * C * WORKGROUP>; // taken up by `combine` alone

#import quant
#import activations

@compute @workgroup_size(WORKGROUP)
fn main(
  @builtin(local_invocation_index) local: u32,
  @builtin(workgroup_id) workgroup: vec3<u32>,
#import activations_arguments
) {
  let rows = rows_of(params.row_set);
  // Chunks of rows are neighbours, so that the second finds its weights in the cache.
  let first_row = params.first_row + workgroup.x * C;
  if (first_row >= rows) {
    return; // recorded for more rows than the pass turned out to have
  }
  let lane = local & 7u;
#import slice
  let keeps = slice == 0u;
  let first_group = ((workgroup.y + workgroup.z * params.grid_y) * (WORKGROUP / (8u * SPLIT)) + tile) * (R / PAIR);
#repeat r R
  let unit_{r} = min(first_group + {r/PAIR}u, params.groups - 1u);
  let group_{r} = unit_{r} + {r%PAIR}u * params.groups;
  let output_{r} = unit_{r} * 8u + lane;
  let live_{r} = first_group + {r/PAIR}u < params.groups && output_{r} < params.outputs;
#repeat c C
  var acc_{r}_{c} = 0.0;
#end
#end
#repeat c C
  let row_{c} = min(first_row + {c}u, rows - 1u);
#end
  for (var block = slice; block < params.blocks; block += SPLIT) {
#repeat r R
    let block_{r} = load_block(group_{r} * params.blocks + block, lane);
#end
#repeat c C
    let mine_{c} = activation_begin(row_{c}, block, activation_lane);
#end
#repeat j 8
    {
#repeat r R
      let w_{r} = weights_{j}(block_{r});
#end
#repeat c C
      let x_{c} = activation_{j}(mine_{c}, row_{c}, block);
#repeat r R
      acc_{r}_{c} = fma(w_{r}.x, x_{c}.x, acc_{r}_{c});
      acc_{r}_{c} = fma(w_{r}.y, x_{c}.y, acc_{r}_{c});
      acc_{r}_{c} = fma(w_{r}.z, x_{c}.z, acc_{r}_{c});
      acc_{r}_{c} = fma(w_{r}.w, x_{c}.w, acc_{r}_{c});
#end
#end
    }
#end
  }
#import combine
#import epilogue
}
