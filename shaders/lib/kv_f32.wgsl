// Slot `kv`: keys and values stored as f32.
alias KvScalar = f32;
