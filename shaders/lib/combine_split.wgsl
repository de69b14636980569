// Slot `combine`: adds the sums of the SPLIT threads that share an output, in order.
#repeat r R
#repeat c C
partial[({r}u * C + {c}u) * WORKGROUP + local] = acc_{r}_{c};
#end
#end
workgroupBarrier();
#repeat r R
#repeat c C
acc_{r}_{c} = 0.0;
for (var s = 0u; s < SPLIT; s++) {
  acc_{r}_{c} += partial[({r}u * C + {c}u) * WORKGROUP + (tile * SPLIT + s) * 8u + lane];
}
#end
#end
