// The second word of a token's rule.
const RULE_IN_PROMPT = 0x80000000u;
const RULE_STOP = 0x40000000u;
const RULE_COUNT = 0x00ffffffu;
