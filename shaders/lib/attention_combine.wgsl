#import lib/attention_window.wgsl
// How the spans of a row become its attention, in ascending order. Comes after `part`, which its two users declare.
//
// exp(max_s - max)·acc_s, added up, over the same of sum_s: the vec4 `d` of head `head` of a row. Every product that is added is in an
// fma, so that no compiler is left to choose.
fn combined(row: u32, head: u32, d: u32) -> vec4<f32> {
  let position = step.table[row].y;
  let first_span = first_position(position) / SPAN;
  let spans = position / SPAN + 1u;
  var at = ((row * params.heads + head) * params.max_spans + first_span) * (HEAD_DIM4 + 1u);
  var largest = -3.0e38;
  var sum = 0.0;
  var acc = vec4<f32>();
  for (var s = first_span; s < spans; s++) {
    let tail = part[at + HEAD_DIM4];
    let next = max(largest, tail.x);
    let old_factor = exp(largest - next);
    let new_factor = exp(tail.x - next);
    sum = fma(sum, old_factor, tail.y * new_factor);
    acc = fma(acc, vec4<f32>(old_factor), part[at + d] * new_factor);
    largest = next;
    at += HEAD_DIM4 + 1u;
  }
  return acc / sum;
}
