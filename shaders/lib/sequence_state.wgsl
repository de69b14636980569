// What the device knows of its sequences without the host: what it chose last. Read back after a step: `chosen` alone.
struct SequenceState {
  chosen: array<u32, 16>,     // a logit row each: the token, or NON_FINITE
  last_token: array<u32, 16>, // a sequence each: the token that row table entries with TOKEN_ON_DEVICE mean
}
const NON_FINITE = 0xffffffffu;
const TOKEN_ON_DEVICE = 0xffffffffu;
