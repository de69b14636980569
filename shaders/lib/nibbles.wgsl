// What formats of four-bit quants share: a weight is scale · quant + minimum.
// Quants stay where they stand in their word, 2^k times too large, and the scale takes the 2^-k: exact, and a shift less each.
struct Block {
  q: vec4<u32>,     // word w: weights 4w.. in the low nibbles, 16+4w.. in the high ones
  low: vec4<f32>,   // the scale times the 2^-k of each low nibble
  high: vec4<f32>,  // of each high nibble; the last is shifted down, as it would be negative
  minimum: f32,
}

fn nibbles(q: vec4<u32>, scale: f32, minimum: f32) -> Block {
  let low = vec4<f32>(1.0, 0x1p-8, 0x1p-16, 0x1p-24);
  let high = vec4<f32>(0x1p-4, 0x1p-12, 0x1p-20, 1.0);
  return Block(q, scale * low, scale * high, minimum);
}
#repeat j 4
fn weights_{j}(block: Block) -> vec4<f32> {
  let q = vec4<u32>(block.q[{j}]) & vec4<u32>(0xfu, 0xf00u, 0xf0000u, 0xf000000u);
  return fma(vec4<f32>(vec4<i32>(q)), block.low, vec4<f32>(block.minimum));
}
fn weights_{j+4}(block: Block) -> vec4<f32> {
  let word = block.q[{j}];
  let q = vec4<u32>(word & 0xf0u, word & 0xf000u, word & 0xf00000u, word >> 28u);
  return fma(vec4<f32>(vec4<i32>(q)), block.high, vec4<f32>(block.minimum));
}
#end
