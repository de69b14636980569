// The parameters of matmul and its tiled twin, what they write, and the bias; the slots `quant` and `activations` bring the rest.
struct Params {
  blocks: u32,     // inputs / 32
  groups: u32,     // outputs / 8, rounded up (of one half, where PAIR = 2)
  outputs: u32,    // outputs (of one half)
  out_offset: u32, // where they begin in a row of `out`
  out_stride: u32, // columns of `out`
  row_set: u32,
  grid_y: u32,     // workgroups in y; z continues them
  first_row: u32,  // where the dispatch begins
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(5) var<storage, read_write> out: array<f32>; // [rows, out_stride]
@group(0) @binding(6) var<storage, read> bias: array<f32>;      // [out_stride]
