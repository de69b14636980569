// d · scale and dmin · minimum of block `block` of eight; the five words of their unit begin at `at`.
fn scale_and_minimum(at: u32, block: u32) -> vec2<f32> {
  let pair = scales[at + (block >> 1u) * 8u] >> ((block & 1u) * 16u);
  let small = vec2<f32>(vec2<i32>(vec2<u32>(pair, pair >> 8u) & vec2<u32>(0xffu)));
  return unpack2x16float(scales[at + 32u]) * small;
}
