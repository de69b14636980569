  // Slot `span_arguments` of attention_span.
  @builtin(local_invocation_index) lane: u32,
