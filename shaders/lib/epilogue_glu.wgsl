// Slot `epilogue`: out = activate(gate) * up; accumulators come in pairs, gate first (PAIR = 2).
#repeat p R/2
#repeat c C
if (keeps && live_{p*2} && first_row + {c}u < rows) {
  out[row_{c} * params.out_stride + params.out_offset + output_{p*2}] = activate(acc_{p*2}_{c}) * acc_{p*2+1}_{c};
}
#end
#end
