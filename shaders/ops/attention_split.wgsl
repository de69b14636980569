// Attention of C rows over one span of SPAN absolute positions for a KV head and the query heads that share it: a workgroup each.
// What it leaves in `part` is combined by attention_reduce.
#import lib/step.wgsl
#import kv

#import lib/attention_split_inputs.wgsl

#import span

@compute @workgroup_size(WORKGROUP)
fn main(
  @builtin(workgroup_id) workgroup: vec3<u32>,
#import span_arguments
) {
  // The first row of the pass is the earliest.
  attend(first_position(step.table[0].y) / SPAN + workgroup.x, workgroup.y, workgroup.z * C, lane);
}
