// Slot `quant`: reads one block of 32 weights of one output. Device layout: [groups, units, QUANT_VEC4S, 8 lanes].
#import lib/nibbles.wgsl
@group(0) @binding(3) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;

fn load_block(index: u32, lane: u32) -> Block {
  let d = unpack2x16float(scales[index * 8u + lane]).x;
  return nibbles(quants[index * 8u + lane], d, -8.0 * d);
}
