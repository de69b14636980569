// Rotates q in place and k on its way into the cache; v goes there as it is. One thread a pair of dimensions.
// The cache is [sequences, kv_heads, capacity, head_dim]; a row writes at its own position modulo the capacity.
#import lib/step.wgsl
#import kv
#import rope

struct Params {
  heads: u32,
  kv_heads: u32,
  capacity: u32,
  reserved: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read_write> qkv: array<f32>;      // [rows, (heads + 2 kv_heads) * 2 HALF]
@group(0) @binding(3) var<storage, read> table: array<vec2<f32>>;    // [positions, HALF]: cos, sin
@group(0) @binding(4) var<storage, read_write> keys: array<KvScalar>;
@group(0) @binding(5) var<storage, read_write> values: array<KvScalar>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let all_heads = params.heads + 2u * params.kv_heads;
  if (id.x >= all_heads * HALF || id.y >= step.rows) {
    return;
  }
  let row = id.y;
  let entry = step.table[row];
  let head = id.x / HALF;
  let i = id.x - head * HALF;
  const head_dim = 2u * HALF;
  let at = (row * all_heads + head) * head_dim;
  let rotation = table[entry.y * HALF + i];
  let pair = rope_pair(i, HALF);
  let a = qkv[at + pair.x];
  let b = qkv[at + pair.y];
  let rotated = turn(vec2<f32>(a, b), rotation);
  if (head < params.heads) {
    qkv[at + pair.x] = rotated.x;
    qkv[at + pair.y] = rotated.y;
  } else if (head < params.heads + params.kv_heads) {
    let kv_head = head - params.heads;
    let to = ((entry.z * params.kv_heads + kv_head) * params.capacity + entry.y % params.capacity) * head_dim;
    keys[to + pair.x] = KvScalar(rotated.x);
    keys[to + pair.y] = KvScalar(rotated.y);
  } else {
    let kv_head = head - params.heads - params.kv_heads;
    let to = ((entry.z * params.kv_heads + kv_head) * params.capacity + entry.y % params.capacity) * head_dim;
    values[to + pair.x] = KvScalar(a);
    values[to + pair.y] = KvScalar(b);
  }
}
