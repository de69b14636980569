  // Slot `span_arguments` of attention_span_subgroup, whose workgroup is one subgroup.
  @builtin(subgroup_invocation_id) lane: u32,
