// Slot `epilogue`: out = acc.
#repeat r R
#repeat c C
if (keeps && live_{r} && first_row + {c}u < rows) {
  out[row_{c} * params.out_stride + params.out_offset + output_{r}] = acc_{r}_{c};
}
#end
#end
