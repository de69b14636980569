// Slot `quant`: reads one block of 32 weights of one output. Device layout: [groups, units, QUANT_VEC4S, 8 lanes].
#import lib/five_bits.wgsl
@group(0) @binding(3) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;

fn load_block(index: u32, lane: u32) -> Block {
  let at = index * 16u + lane;
  let d = unpack2x16float(scales[at + 8u]).x;
  return Block(quants[index * 8u + lane], scales[at], d * BYTES, -16.0 * d);
}
