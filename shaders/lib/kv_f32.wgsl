// Slot `kv`: keys and values stored as f32.
alias KvScalar = f32;
alias KvVec4 = vec4<f32>; // four of them

fn kv_vec4(v: KvVec4) -> vec4<f32> {
  return v;
}

fn kv_stored(v: vec4<f32>) -> KvVec4 {
  return v;
}
