// Slot `token_rules`: logit bias, penalties and the minimum of tokens, from a table with an entry a token.
@group(0) @binding(4) var<storage, read> rules: array<vec2<u32>>; // [sequences, vocab]: bias (f32 bits), RULE_… | output count

#import lib/token_rule_bits.wgsl

// Drafts of the pass up to this row are counted as if they were accepted; the row table holds them.
fn ruled(logit: f32, s: Sampling, pass_row: u32, token: u32) -> f32 {
  let entry = step.table[pass_row];
  let rule = rules[entry.z * params.vocab + token];
  if ((rule.y & RULE_STOP) != 0u && entry.y + 1u < s.prompt_len + s.min_tokens) {
    return MASKED;
  }
  var count = rule.y & RULE_COUNT;
  for (var row = pass_row; row > step.first_logit_row && step.table[row - 1u].z == entry.z; row--) {
    count += select(0u, 1u, step.table[row].x == token);
  }
  var value = logit + bitcast<f32>(rule.x);
  if (count > 0u || (rule.y & RULE_IN_PROMPT) != 0u) {
    value = select(value * s.repetition_penalty, value / s.repetition_penalty, value > 0.0);
  }
  if (count > 0u) {
    value -= s.frequency_penalty * f32(count) + s.presence_penalty;
  }
  return select(value / s.temperature, value, s.temperature == 0.0);
}
