// Attention in one dispatch: what attention_rope, attention_split and attention_reduce do one after another, with the same bits. A
// workgroup takes one KV head, the query heads that share it and every row and span of the pass, so that what it reads of this pass it
// wrote itself: q in place, k and v in the cache, `part`. For short contexts, where dispatches are most of the time.
#import lib/step.wgsl
#import kv
#import rope

#import lib/attention_params.wgsl
@group(0) @binding(2) var<storage, read_write> qkv: array<vec4<f32>>;   // [rows, (heads + 2 kv_heads) * HEAD_DIM4]
@group(0) @binding(3) var<storage, read_write> keys: array<KvVec4>;     // [sequences, kv_heads, capacity, HEAD_DIM4]
@group(0) @binding(4) var<storage, read_write> values: array<KvVec4>;   // the same
@group(0) @binding(5) var<storage, read_write> part: array<vec4<f32>>;  // [rows, heads, max_spans, HEAD_DIM4 + 1]
@group(0) @binding(6) var<storage, read> table: array<vec2<f32>>;       // [positions, 2 HEAD_DIM4]: cos, sin
@group(0) @binding(7) var<storage, read_write> out: array<vec4<f32>>;   // [rows, heads, HEAD_DIM4]

#import span

#import lib/attention_combine.wgsl

const HALF4 = HEAD_DIM4 / 2u;
const TURNED = (GQA + 2u) * HALF4; // a row's threads: the query heads, k, v

@compute @workgroup_size(WORKGROUP)
fn main(
  @builtin(workgroup_id) workgroup: vec3<u32>,
#import span_arguments
) {
  let kv_head = workgroup.x;
  for (var i = lane; i < step.rows * TURNED; i += WORKGROUP) {
    let row = i / TURNED;
    let entry = step.table[row];
    let head = (i - row * TURNED) / HALF4;
    let d = i % HALF4;
    let all_heads = params.heads + 2u * params.kv_heads;
    let cache = ((entry.z * params.kv_heads + kv_head) * params.capacity + entry.y % params.capacity) * HEAD_DIM4 + d;
    if (head == GQA + 1u) {
      let source = (row * all_heads + params.heads + params.kv_heads + kv_head) * HEAD_DIM4 + d;
      values[cache] = kv_stored(qkv[source]);
      values[cache + HALF4] = kv_stored(qkv[source + HALF4]);
    } else {
      let at = (row * all_heads + select(kv_head * GQA + head, params.heads + kv_head, head == GQA)) * HEAD_DIM4 + d;
      let turned = rope_turn(qkv[at], qkv[at + HALF4], entry.y * 2u * HEAD_DIM4, d, HALF4);
      if (head == GQA) {
        keys[cache] = kv_stored(turned.low);
        keys[cache + HALF4] = kv_stored(turned.high);
      } else {
        qkv[at] = turned.low;
        qkv[at + HALF4] = turned.high;
      }
    }
  }
  storageBarrier();
  for (var first_row = 0u; first_row < step.rows; first_row += C) {
    let last_row = min(first_row + C, step.rows) - 1u;
    let spans = step.table[last_row].y / SPAN + 1u;
    for (var s = first_position(step.table[first_row].y) / SPAN; s < spans; s++) {
      attend(s, kv_head, first_row, lane);
      between_spans();
    }
  }
  storageBarrier();
  for (var i = lane; i < step.rows * GQA * HEAD_DIM4; i += WORKGROUP) {
    let row = i / (GQA * HEAD_DIM4);
    let head = kv_head * GQA + i / HEAD_DIM4 % GQA;
    let d = i % HEAD_DIM4;
    out[(row * params.heads + head) * HEAD_DIM4 + d] = combined(row, head, d);
  }
}
