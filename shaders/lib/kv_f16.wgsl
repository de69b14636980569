// Slot `kv`: keys and values stored as f16; all arithmetic stays f32.
alias KvScalar = f16;
alias KvVec4 = vec2<u32>; // four of them, read as words: to lavapipe a load of 16 bits is as dear as one of 32

fn kv_vec4(v: KvVec4) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
}

// The words of four of them. They are rounded as a store of a KvScalar rounds: packing by itself may round otherwise.
fn kv_stored(v: vec4<f32>) -> KvVec4 {
  let rounded = vec4<f32>(vec4<f16>(v));
  return vec2<u32>(pack2x16float(rounded.xy), pack2x16float(rounded.zw));
}
