  // Slot `activations_arguments` of activations_broadcast.
  @builtin(subgroup_invocation_id) activation_lane: u32,
