// out[row, :] = table[token of row, :] * scale. A thread decodes one block of 32 weights.
#import lib/step.wgsl
#import lib/sequence_state.wgsl

struct Params {
  blocks: u32,    // hidden / 32
  first_row: u32, // the table's rows in this buffer: first_row .. first_row + rows
  rows: u32,
  scale: f32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> state: SequenceState;
@group(0) @binding(5) var<storage, read_write> out: array<vec4<f32>>; // [rows, hidden / 4]

#import quant

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let block = id.x;
  let row = id.y;
  if (block >= params.blocks || row >= step.rows) {
    return;
  }
  let entry = step.table[row];
  var token = entry.x;
  if (token == TOKEN_ON_DEVICE) {
    token = state.last_token[entry.z & 15u];
  }
  let index = token - params.first_row; // wraps below: then it is not < rows either
  if (index >= params.rows) {
    return;
  }
  let weights = load_block((index >> 3u) * params.blocks + block, index & 7u);
  let at = (row * params.blocks + block) * 8u;
#repeat j 8
  out[at + {j}u] = weights_{j}(weights) * params.scale;
#end
}
