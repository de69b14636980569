// Slot `span`: attention_span with one subgroup of exactly LANES lanes and no barrier: the same inputs, the same `part`.
//
// For the scores a lane takes a position and the lanes hand the queries round; for the values a lane takes columns and the lanes hand
// the weights round. Positions go in batches of LANES, at absolute places, with a running maximum: the order depends on positions alone.
// The rows of a pass are of one sequence and ascend.
#import lib/attention_window.wgsl
const HEAD_DIM4 = LANES * PER_LANE;
const WORKGROUP = LANES;

fn attend(span: u32, kv_head: u32, first_row: u32, lane: u32) {
  let first = span * SPAN;
  if (first_row >= step.rows) {
    return;
  }
  var least = SPAN;
  var most = 0u;
#repeat c C
  let row_{c} = min(first_row + {c}u, step.rows - 1u);
  // Positions of the span that the row attends to: from_{c} up to live_{c}.
  let live_{c} = u32(clamp(i32(step.table[row_{c}].y + 1u) - i32(first), 0, i32(SPAN)));
  let from_{c} = u32(clamp(i32(first_position(step.table[row_{c}].y)) - i32(first), 0, i32(SPAN)));
  least = min(least, from_{c});
  most = max(most, live_{c});
#end
  if (most <= least) {
    return;
  }
  let cache = ((step.table[row_0].z * params.kv_heads + kv_head) * params.capacity + first % params.capacity) * HEAD_DIM4;
  let stride = (params.heads + 2u * params.kv_heads) * HEAD_DIM4;
#repeat c C
#repeat g GQA
  var largest_{c}_{g} = -3.0e38;
  var sum_{c}_{g} = 0.0;
#repeat i PER_LANE
  let q_{c}_{g}_{i} = qkv[row_{c} * stride + (kv_head * GQA + {g}u) * HEAD_DIM4 + {i}u * LANES + lane];
  var acc_{c}_{g}_{i} = vec4<f32>();
#end
#end
#end
  for (var batch = least / LANES * LANES; batch < most; batch += LANES) {
    let p = batch + lane;
    let key = cache + min(p, most - 1u) * HEAD_DIM4;
#repeat c C
#repeat g GQA
    var s_{c}_{g} = 0.0;
#end
#end
#repeat i PER_LANE
#repeat j LANES
    {
      let k = kv_vec4(keys[key + {i}u * LANES + {j}u]);
#repeat c C
#repeat g GQA
      {
        let q = subgroupBroadcast(q_{c}_{g}_{i}, {j}u);
        s_{c}_{g} = fma(q.x, k.x, s_{c}_{g});
        s_{c}_{g} = fma(q.y, k.y, s_{c}_{g});
        s_{c}_{g} = fma(q.z, k.z, s_{c}_{g});
        s_{c}_{g} = fma(q.w, k.w, s_{c}_{g});
      }
#end
#end
    }
#end
#end
#repeat c C
#repeat g GQA
    let score_{c}_{g} = select(-3.0e38, s_{c}_{g} * params.scale, p >= from_{c} && p < live_{c});
    // Not subgroupMax: attention took 6 % longer with it on lavapipe. A maximum is the same in any order.
    var next_{c}_{g} = largest_{c}_{g};
#repeat j LANES
    next_{c}_{g} = max(next_{c}_{g}, subgroupBroadcast(score_{c}_{g}, {j}u));
#end
    let e_{c}_{g} = select(0.0, exp(score_{c}_{g} - next_{c}_{g}), p >= from_{c} && p < live_{c});
    let factor_{c}_{g} = exp(largest_{c}_{g} - next_{c}_{g});
    largest_{c}_{g} = next_{c}_{g};
    sum_{c}_{g} = fma(sum_{c}_{g}, factor_{c}_{g}, e_{c}_{g});
#repeat i PER_LANE
    acc_{c}_{g}_{i} *= factor_{c}_{g};
#end
#end
#end
#repeat j LANES
    {
      let value = cache + min(batch + {j}u, most - 1u) * HEAD_DIM4 + lane;
#repeat i PER_LANE
      let v_{i} = kv_vec4(values[value + {i}u * LANES]);
#end
#repeat c C
      // A row whose window has no such position must not see it, not even times zero: it may hold anything.
#repeat i PER_LANE
      let seen_{c}_{i} = select(vec4<f32>(), v_{i}, batch + {j}u >= from_{c} && batch + {j}u < live_{c});
#end
#repeat g GQA
      {
        let w = subgroupBroadcast(e_{c}_{g}, {j}u);
#repeat i PER_LANE
        acc_{c}_{g}_{i} = fma(vec4<f32>(w), seen_{c}_{i}, acc_{c}_{g}_{i});
#end
      }
#end
#end
    }
#end
  }
#repeat c C
#repeat g GQA
  {
    let total = subgroupAdd(sum_{c}_{g});
    if (first_row + {c}u < step.rows && live_{c} > from_{c}) {
      let to = ((row_{c} * params.heads + kv_head * GQA + {g}u) * params.max_spans + span) * (HEAD_DIM4 + 1u);
#repeat i PER_LANE
      part[to + {i}u * LANES + lane] = acc_{c}_{g}_{i};
#end
      if (lane == 0u) {
        part[to + HEAD_DIM4] = vec4<f32>(largest_{c}_{g}, total, 0.0, 0.0);
      }
    }
  }
#end
#end
}

// Nothing to wait for between two spans.
fn between_spans() {
}
