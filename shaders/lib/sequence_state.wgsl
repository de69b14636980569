// What the device knows of its sequences without the host: what it chose last, and how steps in flight go on. Read back after a
// step: `chosen` alone, with a draft model all up to `log_confidences`, or the outcome.
struct SequenceState {
  chosen: array<u32, 16>,         // a logit row each: the token, or NON_FINITE
  drafts: array<u32, 15>,         // a draft model's, as ids of the target
  drafted: u32,                   // how many
  log_confidences: array<f32, 16>, // of each: ln of the draft model's probability that it and all before it are right
  last_token: array<u32, 16>,     // a sequence each: the token that row table entries with TOKEN_ON_DEVICE mean
  outcome_ended: u32,             // of the latest step in flight: 1 where steps had ended before it
  outcome_drafted: u32,           // drafts it verified
  outcome_accepted: u32,          // how many of them were accepted
  outcome_reserved: u32,
  outcome_chosen: array<u32, 16>, // accepted + 1 of them count
  history_len: u32,               // tokens committed by the device and before
  ended: u32,                     // 1: there is no next step
  drafting: u32,                  // 0: a draft has ended before it was as long as it might have been
}
const NON_FINITE = 0xffffffffu;
const TOKEN_ON_DEVICE = 0xffffffffu;
const NO_COUNTERPART = 0xffffffffu;
