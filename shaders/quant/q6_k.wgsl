// Slot `quant`: reads one block of 32 weights of one output. Device layout: [groups, units, QUANT_VEC4S, 8 lanes].
// A unit is eight blocks: two words of upper bits for each, a word of signed scales for every two of them, then one of d.
#import lib/quant_bytes.wgsl
@group(0) @binding(3) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;

struct Block {
  q: vec4<u32>,       // word w: weights 4w.. in the low nibbles, 16+4w.. in the high ones
  upper: vec2<u32>,   // byte b of a half: two bits of weights b, 4+b, 8+b, 12+b from bits 4, 6, 2, 0 on
  scale_0: vec4<f32>, // of weights 0..16, times BYTES
  scale_1: vec4<f32>, // of 16..32
  minimum: vec2<f32>, // -32 times either
}

fn load_block(index: u32, lane: u32) -> Block {
  let at = (index >> 3u) * 168u + lane;
  let block = index & 7u;
  let upper = vec2<u32>(scales[at + block * 16u], scales[at + block * 16u + 8u]);
  let pair = scales[at + 128u + (block >> 1u) * 8u] >> ((block & 1u) * 16u);
  let small = vec2<i32>(vec2<u32>(pair << 24u, pair << 16u)) >> vec2<u32>(24u);
  let scale = unpack2x16float(scales[at + 160u]).x * vec2<f32>(small);
  return Block(quants[index * 8u + lane], upper, scale.x * BYTES, scale.y * BYTES, -32.0 * scale);
}

fn six_bits(nibbles: u32, upper: u32) -> vec4<f32> {
  return quant_bytes((nibbles & 0x0f0f0f0fu) | (upper & 0x30303030u));
}
#repeat j 2
fn weights_{j}(block: Block) -> vec4<f32> {
  return fma(six_bits(block.q[{j}], block.upper.x >> {j*2}u), block.scale_0, vec4<f32>(block.minimum.x));
}
fn weights_{j+2}(block: Block) -> vec4<f32> {
  return fma(six_bits(block.q[{j+2}], block.upper.x << {j*2+2}u), block.scale_0, vec4<f32>(block.minimum.x));
}
fn weights_{j+4}(block: Block) -> vec4<f32> {
  return fma(six_bits(block.q[{j}] >> 4u, block.upper.y >> {j*2}u), block.scale_1, vec4<f32>(block.minimum.y));
}
fn weights_{j+6}(block: Block) -> vec4<f32> {
  return fma(six_bits(block.q[{j+2}] >> 4u, block.upper.y << {j*2+2}u), block.scale_1, vec4<f32>(block.minimum.y));
}
#end
