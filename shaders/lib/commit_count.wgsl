// Slot `commit`: an output token is counted for the penalties of the passes that follow.
@group(0) @binding(4) var<storage, read_write> rules: array<vec2<u32>>; // [sequences, vocab]

fn commit(sequence: u32, token: u32) {
  rules[sequence * params.vocab + token].y += 1u;
}
