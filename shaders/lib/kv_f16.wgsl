// Slot `kv`: keys and values stored as f16; all arithmetic stays f32.
alias KvScalar = f16;
