// Four quants of at most seven bits, one a byte: quant b comes 2^(8b) times too large, which BYTES in the scale undoes, exactly.
const BYTES = vec4<f32>(1.0, 0x1p-8, 0x1p-16, 0x1p-24);

fn quant_bytes(word: u32) -> vec4<f32> {
  return vec4<f32>(vec4<i32>(vec4<u32>(word) & vec4<u32>(0xffu, 0xff00u, 0xff0000u, 0xff000000u)));
}
