// The best of each row's slices, then acceptance: the drafts of a sequence are kept while they equal what the target chose before
// them. Writes the choices where the host reads them, and each sequence's last committed token where its next embedding finds it.
#import lib/step.wgsl
#import lib/sequence_state.wgsl

struct Params {
  slices: u32,
  vocab: u32,
  reserved0: u32,
  reserved1: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> best: array<vec4<u32>>; // [rows, slices]
@group(0) @binding(3) var<storage, read_write> state: SequenceState;

#import commit

var<workgroup> chosen: array<u32, 16>;

@compute @workgroup_size(16)
fn main(@builtin(local_invocation_index) row: u32) {
  if (row < step.logit_rows) {
    var top = -3.4e38;
    var token = 0u;
    var non_finite = 0u;
    for (var slice = 0u; slice < params.slices; slice++) {
      let candidate = best[row * params.slices + slice];
      non_finite |= candidate.z;
      let score = bitcast<f32>(candidate.x);
      if (score > top || slice == 0u) {
        top = score;
        token = candidate.y;
      }
    }
    chosen[row] = select(token, NON_FINITE, non_finite != 0u);
    state.chosen[row] = chosen[row];
  }
  workgroupBarrier();
  if (row == 0u) {
    var accepting = true;
    for (var i = 0u; i < step.logit_rows; i++) {
      let entry = step.table[step.first_logit_row + i];
      if (accepting && chosen[i] != NON_FINITE) {
        commit(entry.z, chosen[i]);
      }
      if (accepting) {
        state.last_token[entry.z & 15u] = select(chosen[i], 0u, chosen[i] == NON_FINITE);
      }
      if (i + 1u < step.logit_rows) {
        let next = step.table[step.first_logit_row + i + 1u];
        accepting = next.z != entry.z || (accepting && next.x == chosen[i]);
      }
    }
  }
}
