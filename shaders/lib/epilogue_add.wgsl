// Slot `epilogue`: out += acc, the residual stream.
#repeat r R
#repeat c C
if (keeps && live_{r} && first_row + {c}u < rows) {
  let at_{r}_{c} = row_{c} * params.out_stride + params.out_offset + output_{r};
  out[at_{r}_{c}] = out[at_{r}_{c}] + acc_{r}_{c};
}
#end
#end
