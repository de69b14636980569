// Slot `kv`: keys and values stored as f16; all arithmetic stays f32.
alias KvScalar = f16;
alias KvVec4 = vec2<u32>; // four of them, read as words: to lavapipe a load of 16 bits is as dear as one of 32

fn kv_vec4(v: KvVec4) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
}
