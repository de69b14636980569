// What the device knows of its sequences without the host: what it chose last, and how steps in flight go on. Read back after a
// step: `chosen` alone, or the outcome.
struct SequenceState {
  chosen: array<u32, 16>,         // a logit row each: the token, or NON_FINITE
  last_token: array<u32, 16>,     // a sequence each: the token that row table entries with TOKEN_ON_DEVICE mean
  outcome_ended: u32,             // of the latest step in flight: 1 where steps had ended before it
  outcome_drafted: u32,           // drafts it verified
  outcome_accepted: u32,          // how many of them were accepted
  outcome_reserved: u32,
  outcome_chosen: array<u32, 16>, // accepted + 1 of them count
  history_len: u32,               // tokens committed by the device and before
  ended: u32,                     // 1: there is no next step
}
const NON_FINITE = 0xffffffffu;
const TOKEN_ON_DEVICE = 0xffffffffu;
