// Slot `quant`: reads one block of 32 weights of one output. Device layout: [groups, units, QUANT_VEC4S, 8 lanes].
@group(0) @binding(3) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;

struct Block {
  q: vec4<u32>, // word w: weights 4w.. in the low nibbles, 16+4w.. in the high ones
  scale: f32,   // d * 2^-24
}

fn load_block(index: u32, lane: u32) -> Block {
  return Block(quants[index * 8u + lane], unpack2x16float(scales[index * 8u + lane]).x * 0x1p-24);
}

// Entries of the table, signed bytes four a word, by the low four bits of each of `at`: in the top byte, 2^24 times too large.
fn chosen(at: vec4<u32>) -> vec4<f32> {
  let second = (at & vec4<u32>(4u)) != vec4<u32>(0u);
  let below = select(vec4<u32>(0xbfad9881u), vec4<u32>(0xf6eaddcfu), second);
  let above = select(vec4<u32>(0x26190d01u), vec4<u32>(0x71594535u), second);
  let word = select(below, above, (at & vec4<u32>(8u)) != vec4<u32>(0u));
  return vec4<f32>(vec4<i32>(word << ((~at & vec4<u32>(3u)) * 8u)) & vec4<i32>(-0x1000000));
}
#repeat j 4
fn weights_{j}(block: Block) -> vec4<f32> {
  return chosen(vec4<u32>(block.q[{j}]) >> vec4<u32>(0u, 8u, 16u, 24u)) * block.scale;
}
fn weights_{j+4}(block: Block) -> vec4<f32> {
  return chosen(vec4<u32>(block.q[{j}]) >> vec4<u32>(4u, 12u, 20u, 28u)) * block.scale;
}
#end
