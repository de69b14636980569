// A draft model's choice joins the draft, and the rows of what comes next are made: the draft model's next pass, or those that the
// target verifies. One thread. The definition is crates/core/src/draft.rs.
#import lib/step.wgsl
#import lib/sequence_state.wgsl
#import lib/next_rows.wgsl

struct Params {
  index: u32,       // choices before it in this draft
  last: u32,        // 1: the verify pass comes next
  stops_early: u32, // 1: `log_confidence` is heeded
  vocab: u32,       // of the target
  mapped: u32,      // entries of `to_target`; 0: ids are the same
}
struct DraftStart {
  token: u32, // the target's last committed one
  position: u32,
  sequence: u32,
  log_confidence: f32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read_write> state: SequenceState;
@group(0) @binding(3) var<storage, read> start: DraftStart;
@group(0) @binding(4) var<storage, read> logprobs: array<vec2<u32>>; // of the choice first
@group(0) @binding(5) var<storage, read> to_target: array<u32>;      // [mapped]
@group(0) @binding(6) var<storage, read_write> next: NextRows;

@compute @workgroup_size(1)
fn main() {
  if (params.index == 0u) {
    state.drafted = 0u;
    state.drafting = 1u;
  }
  let chosen = state.chosen[0];
  if (state.drafting != 0u) {
    var counterpart = chosen;
    if (params.mapped > 0u) {
      counterpart = NO_COUNTERPART;
      if (chosen < params.mapped) {
        counterpart = to_target[chosen];
      }
    }
    var confidence = 0.0;
    if (state.drafted > 0u) {
      confidence = state.log_confidences[state.drafted - 1u];
    }
    if (params.stops_early != 0u) {
      confidence += bitcast<f32>(logprobs[0].y);
    }
    // What is not finite, and what has no counterpart, is the largest id.
    let proposed = counterpart < params.vocab;
    if (proposed) {
      state.drafts[state.drafted] = counterpart;
      state.log_confidences[state.drafted] = confidence;
      state.drafted++;
    }
    let sure = params.stops_early == 0u || confidence >= start.log_confidence;
    state.drafting = select(0u, 1u, proposed && sure);
  }
  var rows = state.drafting;
  if (params.last == 0u) {
    next.table[0] = vec4<u32>(chosen, step.table[max(step.rows, 1u) - 1u].y + 1u, start.sequence, 0u);
  } else {
    rows = state.drafted + 1u;
    next.table[0] = vec4<u32>(start.token, start.position, start.sequence, 0u);
    for (var i = 1u; i < rows; i++) {
      next.table[i] = vec4<u32>(state.drafts[i - 1u], start.position + i, start.sequence, 0u);
    }
  }
  next.rows = rows;
  next.logit_rows = rows;
  next.first_logit_row = 0u;
}
