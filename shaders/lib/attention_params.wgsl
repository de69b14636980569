// The parameters of attention_split and attention_whole.
struct Params {
  heads: u32,
  kv_heads: u32,
  context: u32,
  max_spans: u32,
  scale: f32,
  reserved0: u32,
  reserved1: u32,
  reserved2: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
