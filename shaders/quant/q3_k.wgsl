// Slot `quant`: reads one block of 32 weights of one output. Device layout: [groups, units, QUANT_VEC4S, 8 lanes].
// A unit is eight blocks: a word of third bits for each, a word of signed scales for every two of them, then one of d.
#import lib/quant_bytes.wgsl
@group(0) @binding(3) var<storage, read> quants: array<vec2<u32>>; // the halves of QUANT_VEC4S
@group(0) @binding(4) var<storage, read> scales: array<u32>;

struct Block {
  q: vec2<u32>,       // byte b of a half: two bits of weights b, 4+b, 8+b, 12+b, ascending
  third: vec2<u32>,   // byte b of a half: the bits above, from bit 2 on
  scale_0: vec4<f32>, // of weights 0..16, times BYTES
  scale_1: vec4<f32>, // of 16..32
  minimum: vec2<f32>, // -4 times either
}

fn load_block(index: u32, lane: u32) -> Block {
  let at = (index >> 3u) * 104u + lane;
  let block = index & 7u;
  let third = scales[at + block * 8u];
  let pair = scales[at + 64u + (block >> 1u) * 8u] >> ((block & 1u) * 16u);
  let small = vec2<i32>(vec2<u32>(pair << 24u, pair << 16u)) >> vec2<u32>(24u);
  let scale = unpack2x16float(scales[at + 96u]).x * vec2<f32>(small);
  let q = quants[((index >> 1u) * 8u + lane) * 2u + (index & 1u)];
  return Block(q, vec2<u32>(third << 2u, third >> 2u), scale.x * BYTES, scale.y * BYTES, -4.0 * scale);
}
#repeat j 8
fn weights_{j}(block: Block) -> vec4<f32> {
  let q = ((block.q[{j/4}] >> {j%4*2}u) & 0x03030303u) | ((block.third[{j/4}] >> {j%4}u) & 0x04040404u);
  return fma(quant_bytes(q), block.scale_{j/4}, vec4<f32>(block.minimum[{j/4}]));
}
#end
