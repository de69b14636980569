// The rows of the next pass, without the host: what this one's choices commit joins the history, and what followed the longest
// suffix of it when it stood there before is drafted (prompt lookup). One workgroup; thread 0 commits, all threads look up.
#import lib/step.wgsl
#import lib/sequence_state.wgsl
#import lib/next_rows.wgsl

struct Params {
  drafts: u32, // at most
  min: u32,    // tokens of a match; max 0: nothing is looked up
  max: u32,
  latest: u32, // 1: of several matches of one length the last is continued, 0: the first
}
// Where a sequence of steps ends.
struct StepLimits {
  sequence: u32,
  tokens: u32,  // with so many it ends
  context: u32, // positions that rows may take
  stop_ids: u32,
  stop_id: array<u32, 60>,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read_write> state: SequenceState;
@group(0) @binding(3) var<storage, read_write> history: array<u32>; // [context]: committed tokens
@group(0) @binding(4) var<storage, read> limits: StepLimits;
@group(0) @binding(5) var<storage, read_write> next: NextRows;

var<workgroup> length: u32;
var<workgroup> matched: array<u32, 64>;
var<workgroup> follower: array<u32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) local: u32) {
  if (local == 0u) {
    length = commit();
  }
  storageBarrier();
  workgroupBarrier();
  let len = length;
  // A candidate is the index of a token that followed an earlier occurrence of the suffix.
  var longest = 0u;
  var found = 0u;
  for (var candidate = 1u + local; candidate < len; candidate += 64u) {
    let most = min(params.max, candidate);
    var same = 0u;
    while (same < most && history[candidate - 1u - same] == history[len - 1u - same]) {
      same++;
    }
    if (same >= params.min && (same > longest || (same == longest && params.latest == 1u))) {
      longest = same;
      found = candidate;
    }
  }
  matched[local] = longest;
  follower[local] = found;
  workgroupBarrier();
  if (local == 0u) {
    for (var i = 1u; i < 64u; i++) {
      let beyond = (follower[i] > found) == (params.latest == 1u);
      if (matched[i] > longest || (matched[i] == longest && longest > 0u && beyond)) {
        longest = matched[i];
        found = follower[i];
      }
    }
    var drafts = 0u;
    if (longest > 0u) {
      drafts = min(min(params.drafts, len - found), max(limits.context, len) - len);
    }
    let rows = select(1u + drafts, 0u, state.ended != 0u);
    next.rows = rows;
    next.logit_rows = rows;
    next.first_logit_row = 0u;
    for (var i = 0u; i < rows; i++) {
      let at = select(found + i - 1u, len - 1u, i == 0u);
      next.table[i] = vec4<u32>(history[at], len - 1u + i, limits.sequence, 0u);
    }
  }
}

// Appends what follows from committed tokens to the history, tells the host, and returns the history's length.
fn commit() -> u32 {
  var len = state.history_len;
  let drafted = max(step.logit_rows, 1u) - 1u;
  if (state.ended != 0u || step.logit_rows == 0u) {
    state.outcome_ended = 1u;
    return len;
  }
  var accepted = 0u;
  while (accepted < drafted && step.table[step.first_logit_row + accepted + 1u].x == state.chosen[accepted]) {
    accepted++;
  }
  state.outcome_ended = 0u;
  state.outcome_drafted = drafted;
  state.outcome_accepted = accepted;
  for (var i = 0u; i <= accepted; i++) {
    state.outcome_chosen[i] = state.chosen[i];
  }
  var ended = false;
  for (var i = 0u; i <= accepted && !ended; i++) {
    let token = state.chosen[i];
    if (token == NON_FINITE) {
      ended = true;
    } else {
      history[len] = token;
      len++;
      ended = len >= min(limits.tokens, limits.context);
      for (var s = 0u; s < limits.stop_ids; s++) {
        ended = ended || limits.stop_id[s] == token;
      }
    }
  }
  state.ended = select(0u, 1u, ended);
  state.history_len = len;
  return len;
}
