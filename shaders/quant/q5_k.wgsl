// Slot `quant`: reads one block of 32 weights of one output. Device layout: [groups, units, QUANT_VEC4S, 8 lanes].
// A unit is eight blocks: a word of fifth bits for each, a word of scales and minima for every two of them, then one of d and dmin.
#import lib/five_bits.wgsl
#import lib/scale_and_minimum.wgsl
@group(0) @binding(3) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;

fn load_block(index: u32, lane: u32) -> Block {
  let at = (index >> 3u) * 104u + lane;
  let block = index & 7u;
  let scale = scale_and_minimum(at + 64u, block);
  return Block(quants[index * 8u + lane], scales[at + block * 8u], scale.x * BYTES, -scale.y);
}
