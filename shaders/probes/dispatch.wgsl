// What a dispatch costs that does next to nothing: one thread, which adds one where the dispatch before it did, so that
// they follow each other as the dispatches of a pass do.
@group(0) @binding(2) var<storage, read_write> out: array<u32>; // [1]

@compute @workgroup_size(1)
fn main() {
  out[0] += 1u;
}
