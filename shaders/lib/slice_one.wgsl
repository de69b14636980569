  // Slot `slice`: SPLIT is 1. A constant, so that control flow is uniform where subgroups hand activations round.
  let slice = 0u;
  let tile = local >> 3u;
