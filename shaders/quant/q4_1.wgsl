// Slot `quant`: reads one block of 32 weights of one output. Device layout: [groups, blocks, QUANT_VEC4S, 8 lanes].
@group(0) @binding(3) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;

struct Block {
  q: vec4<u32>,     // word w: weights 4w.. in the low nibbles, 16+4w.. in the high ones
  scale: vec2<f32>, // d, m
}

fn load_block(index: u32, lane: u32) -> Block {
  return Block(quants[index * 8u + lane], unpack2x16float(scales[index * 8u + lane]));
}
#repeat j 8
fn weights_{j}(block: Block) -> vec4<f32> {
  let word = block.q[{j%4}] >> {j/4*4}u;
  let q = vec4<u32>(word, word >> 8u, word >> 16u, word >> 24u) & vec4<u32>(15u);
  return fma(vec4<f32>(vec4<i32>(q)), vec4<f32>(block.scale.x), vec4<f32>(block.scale.y));
}
#end
