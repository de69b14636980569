// Slot `quant`: reads one block of 32 weights of one output. Device layout: [groups, units, QUANT_VEC4S, 8 lanes].
// A unit is eight blocks: a word of scales and minima for every two of them, then one of d and dmin.
#import lib/nibbles.wgsl
#import lib/scale_and_minimum.wgsl
@group(0) @binding(3) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;

fn load_block(index: u32, lane: u32) -> Block {
  let scale = scale_and_minimum((index >> 3u) * 40u + lane, index & 7u);
  return nibbles(quants[index * 8u + lane], scale.x, -scale.y);
}
