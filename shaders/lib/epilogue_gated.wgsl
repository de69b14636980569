// Slot `epilogue`: out = activate(out) * acc, where `out` already holds the gate: the second half of a GLU whose two
// matrices differ in format.
#repeat r R
#repeat c C
if (keeps && live_{r} && first_row + {c}u < rows) {
  let at_{r}_{c} = row_{c} * params.out_stride + params.out_offset + output_{r};
  out[at_{r}_{c}] = activate(out[at_{r}_{c}]) * acc_{r}_{c};
}
#end
#end
