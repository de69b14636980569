// The parameters of attention_split and attention_whole.
struct Params {
  heads: u32,
  kv_heads: u32,
  capacity: u32,  // positions in the cache; position p has the place p % capacity
  max_spans: u32,
  scale: f32,
  window: u32,    // positions that a row attends to; 2^32 - 1: all up to its own
  reserved1: u32,
  reserved2: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
