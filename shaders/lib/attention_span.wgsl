// Slot `span`: C rows over one span of SPAN absolute positions, for the GQA query heads that share a KV head: QUERIES = C · GQA queries
// read each key and value once. Within a span the order of every sum depends on positions alone, so a row's bits depend on neither C
// nor the rows beside it. Leaves part[row, head, span] = sum(e·v) [head_dim], then max, then sum(e), with e = exp(score - max).
//
// Threads take positions for the scores, then (column, slice of the span) for the values; slices are added up in order.
// The rows of a pass are of one sequence and ascend.
#import lib/attention_window.wgsl
const QUERIES = C * GQA;
const COLUMNS = 4u * HEAD_DIM4 + 1u; // a query's sum(e·v), then its sum(e)
const SLICES = max(64u / HEAD_DIM4, 1u);
const SLICE = SPAN / SLICES; // the last slice takes what is left

// First the scores, then e [QUERIES, SPAN]; then the sums over slices [QUERIES, COLUMNS].
var<workgroup> scratch: array<f32, QUERIES * max(SPAN, COLUMNS)>;
var<workgroup> largest: array<f32, QUERIES>;
const WORKGROUP = 64u;

fn attend(span: u32, kv_head: u32, first_row: u32, local: u32) {
  let first = span * SPAN;
  if (first_row >= step.rows) {
    return;
  }
#repeat c C
  let row_{c} = min(first_row + {c}u, step.rows - 1u);
  // Positions of the span that the row attends to: from_{c} up to live_{c}.
  let live_{c} = u32(clamp(i32(step.table[row_{c}].y + 1u) - i32(first), 0, i32(SPAN)));
  let from_{c} = u32(clamp(i32(first_position(step.table[row_{c}].y)) - i32(first), 0, i32(SPAN)));
#end
  var least = SPAN;
  var most = 0u;
#repeat c C
  least = min(least, from_{c});
  most = max(most, live_{c});
#end
  if (most <= least) {
    return;
  }
  let cache = ((step.table[row_0].z * params.kv_heads + kv_head) * params.capacity + first % params.capacity) * HEAD_DIM4;
  let stride = (params.heads + 2u * params.kv_heads) * HEAD_DIM4;

  for (var p = least + local; p < most; p += 64u) {
#repeat c C
    let query_{c} = row_{c} * stride + kv_head * GQA * HEAD_DIM4;
#repeat g GQA
    var s_{c}_{g} = 0.0;
#end
#end
    for (var d = 0u; d < HEAD_DIM4; d++) {
      let k = kv_vec4(keys[cache + p * HEAD_DIM4 + d]);
#repeat c C
#repeat g GQA
      {
        let q = qkv[query_{c} + {g}u * HEAD_DIM4 + d];
        s_{c}_{g} = fma(q.x, k.x, s_{c}_{g});
        s_{c}_{g} = fma(q.y, k.y, s_{c}_{g});
        s_{c}_{g} = fma(q.z, k.z, s_{c}_{g});
        s_{c}_{g} = fma(q.w, k.w, s_{c}_{g});
      }
#end
#end
    }
#repeat c C
#repeat g GQA
    scratch[({c}u * GQA + {g}u) * SPAN + p] = s_{c}_{g} * params.scale;
#end
#end
  }
  workgroupBarrier();

  for (var q = local; q < QUERIES; q += 64u) {
    let live = live_of(q / GQA, first, first_row);
    var top = -3.0e38;
    for (var p = live.x; p < live.y; p++) {
      top = max(top, scratch[q * SPAN + p]);
    }
    largest[q] = top;
  }
  workgroupBarrier();

  for (var p = least + local; p < most; p += 64u) {
#repeat c C
    if (p >= from_{c} && p < live_{c}) {
#repeat g GQA
      scratch[({c}u * GQA + {g}u) * SPAN + p] = exp(scratch[({c}u * GQA + {g}u) * SPAN + p] - largest[{c}u * GQA + {g}u]);
#end
    }
#end
  }
  workgroupBarrier();

  let slice = local / HEAD_DIM4;
  let d = local % HEAD_DIM4;
#repeat c C
#repeat g GQA
  var acc_{c}_{g} = vec4<f32>();
  var sum_{c}_{g} = 0.0;
#end
#end
  if (slice < SLICES) {
    let begin = slice * SLICE;
    let end = min(select(begin + SLICE, SPAN, slice + 1u == SLICES), most);
    for (var p = max(begin, least); p < end; p++) {
      let v = kv_vec4(values[cache + p * HEAD_DIM4 + d]);
#repeat c C
      // A row whose window has no such position must not see it, not even times zero: it may hold anything.
      if (p >= from_{c} && p < live_{c}) {
#repeat g GQA
        let e_{g} = scratch[({c}u * GQA + {g}u) * SPAN + p];
        acc_{c}_{g} = fma(vec4<f32>(e_{g}), v, acc_{c}_{g});
        sum_{c}_{g} += e_{g};
#end
      }
#end
    }
  }
  // Slices are added up in order, one a turn; the last one has the result.
  for (var turn = 0u; turn < SLICES; turn++) {
    workgroupBarrier();
    if (slice == turn) {
#repeat c C
#repeat g GQA
      {
        let at = ({c}u * GQA + {g}u) * COLUMNS;
        if (turn > 0u) {
          acc_{c}_{g} += vec4<f32>(scratch[at + 4u * d], scratch[at + 4u * d + 1u], scratch[at + 4u * d + 2u], scratch[at + 4u * d + 3u]);
          if (d == 0u) {
            sum_{c}_{g} += scratch[at + COLUMNS - 1u];
          }
        }
        if (turn + 1u < SLICES) {
          scratch[at + 4u * d] = acc_{c}_{g}.x;
          scratch[at + 4u * d + 1u] = acc_{c}_{g}.y;
          scratch[at + 4u * d + 2u] = acc_{c}_{g}.z;
          scratch[at + 4u * d + 3u] = acc_{c}_{g}.w;
          if (d == 0u) {
            scratch[at + COLUMNS - 1u] = sum_{c}_{g};
          }
        } else if (first_row + {c}u < step.rows && live_{c} > from_{c}) {
          let head = kv_head * GQA + {g}u;
          let to = ((row_{c} * params.heads + head) * params.max_spans + span) * (HEAD_DIM4 + 1u);
          part[to + d] = acc_{c}_{g};
          if (d == 0u) {
            part[to + HEAD_DIM4] = vec4<f32>(largest[{c}u * GQA + {g}u], sum_{c}_{g}, 0.0, 0.0);
          }
        }
      }
#end
#end
    }
  }
}

// Has to stand between two spans: they share `scratch`.
fn between_spans() {
  workgroupBarrier();
}

// Positions of the span that row `c` of the chunk attends to: the first, and the one behind the last.
fn live_of(c: u32, first: u32, first_row: u32) -> vec2<u32> {
  let position = step.table[min(first_row + c, step.rows - 1u)].y;
  let ends = vec2<i32>(vec2<u32>(first_position(position), position + 1u)) - i32(first);
  return vec2<u32>(clamp(ends, vec2<i32>(), vec2<i32>(i32(SPAN))));
}
