// How fast memory streams in: a workgroup reads WORKGROUP · READ_VEC4S vec4 that lie together. Thread t begins at
// t · THREAD_STRIDE and goes on by LOAD_STRIDE: neighbours side by side, or each thread along a run of its own.
// Nothing is written unless the words have one very sum, so no load can be left out and no store is timed.
@group(0) @binding(2) var<storage, read> words: array<vec4<u32>>;   // [workgroups, WORKGROUP · READ_VEC4S]
@group(0) @binding(3) var<storage, read_write> out: array<u32>; // [1]

const UNLIKELY = 0x9e3779b9u;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(local_invocation_index) local: u32, @builtin(workgroup_id) workgroup: vec3<u32>) {
  let first = workgroup.x * (WORKGROUP * READ_VEC4S) + local * THREAD_STRIDE;
  var sum = vec4<u32>();
  for (var i = 0u; i < READ_VEC4S; i += 8u) {
#repeat j 8
    sum += words[first + (i + {j}u) * LOAD_STRIDE];
#end
  }
  if (sum.x + sum.y + sum.z + sum.w == UNLIKELY) {
    out[0] = 1u;
  }
}
