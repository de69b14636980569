// How fast f32 multiply-adds go: CHAINS of them a thread, none waiting for another. More chains spill on software
// drivers, fewer wait for their own results. UNROLL steps of each go into an iteration, whose own cost is large there.
struct Params {
  iterations: u32, // each does UNROLL multiply-adds a chain
  factor: f32,     // below 1: the chains converge and stay finite
  addend: f32,
  reserved: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read_write> out: array<f32>; // [1]

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let start = f32(id.x);
#repeat c CHAINS
  var chain_{c} = start + {c}.0;
#end
  for (var i = 0u; i < params.iterations; i++) {
#repeat j UNROLL
#repeat c CHAINS
    chain_{c} = fma(chain_{c}, params.factor, params.addend);
#end
#end
  }
  var sum = 0.0;
#repeat c CHAINS
  sum += chain_{c};
#end
  // Never so, which no compiler knows.
  if (sum < 0.0) {
    out[0] = sum;
  }
}
