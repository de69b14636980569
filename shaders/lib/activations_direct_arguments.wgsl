  // Slot `activations_arguments` of activations_direct: no lane loads for another, so any builtin serves.
  @builtin(global_invocation_id) activation_lane: vec3<u32>,
