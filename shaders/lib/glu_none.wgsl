// Slot `glu`: the kernel has no gate.
