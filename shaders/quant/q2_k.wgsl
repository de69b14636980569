// Slot `quant`: reads one block of 32 weights of one output. Device layout: [groups, units, QUANT_VEC4S, 8 lanes].
// A unit is eight blocks: a word of scales and minima for every two of them, then one of d and dmin.
#import lib/quant_bytes.wgsl
@group(0) @binding(3) var<storage, read> quants: array<vec2<u32>>; // the halves of QUANT_VEC4S
@group(0) @binding(4) var<storage, read> scales: array<u32>;

struct Block {
  q: vec2<u32>,       // byte b of a half: weights b, 4+b, 8+b, 12+b, ascending
  scale_0: vec4<f32>, // of weights 0..16, times BYTES
  scale_1: vec4<f32>, // of 16..32
  minimum: vec2<f32>, // of either
}

fn load_block(index: u32, lane: u32) -> Block {
  let at = (index >> 3u) * 40u + lane;
  let pair = scales[at + ((index >> 1u) & 3u) * 8u] >> ((index & 1u) * 16u);
  let small = vec4<f32>(vec4<i32>(vec4<u32>(pair, pair >> 8u, pair >> 4u, pair >> 12u) & vec4<u32>(15u)));
  let d = unpack2x16float(scales[at + 32u]); // d, dmin
  let scale = d.x * small.xy;
  let q = quants[((index >> 1u) * 8u + lane) * 2u + (index & 1u)];
  return Block(q, scale.x * BYTES, scale.y * BYTES, -d.y * small.zw);
}
#repeat j 8
fn weights_{j}(block: Block) -> vec4<f32> {
  let q = (block.q[{j/4}] >> {j%4*2}u) & 0x03030303u;
  return fma(quant_bytes(q), block.scale_{j/4}, vec4<f32>(block.minimum[{j/4}]));
}
#end
