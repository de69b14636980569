// What formats of five-bit quants share: a weight is scale · quant + minimum.
#import lib/quant_bytes.wgsl
struct Block {
  q: vec4<u32>,     // word w: weights 4w.. in the low nibbles, 16+4w.. in the high ones
  fifth: u32,       // byte b: bit w of weight 4w+b, bit 4+w of 16+4w+b
  scale: vec4<f32>, // times BYTES
  minimum: f32,
}
#repeat j 4
fn weights_{j}(block: Block) -> vec4<f32> {
  let q = (block.q[{j}] & 0x0f0f0f0fu) | (((block.fifth << 4u) >> {j}u) & 0x10101010u);
  return fma(quant_bytes(q), block.scale, vec4<f32>(block.minimum));
}
fn weights_{j+4}(block: Block) -> vec4<f32> {
  let q = ((block.q[{j}] >> 4u) & 0x0f0f0f0fu) | ((block.fifth >> {j}u) & 0x10101010u);
  return fma(quant_bytes(q), block.scale, vec4<f32>(block.minimum));
}
#end
