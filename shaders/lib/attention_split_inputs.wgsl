// What attention_split reads and writes. Comes after the slot `kv`.
#import lib/attention_params.wgsl
@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;          // [rows, (heads + 2 kv_heads) * HEAD_DIM4]
@group(0) @binding(3) var<storage, read> keys: array<KvVec4>;    // [sequences, kv_heads, capacity, HEAD_DIM4]
@group(0) @binding(4) var<storage, read> values: array<KvVec4>;  // the same
@group(0) @binding(5) var<storage, read_write> part: array<vec4<f32>>;   // [rows, heads, max_spans, HEAD_DIM4 + 1]
