  // Slot `slice`: neighbouring eights of threads share their outputs.
  let slice = (local >> 3u) % SPLIT;
  let tile = (local >> 3u) / SPLIT;
