// Slot `combine`: SPLIT is 1, a thread has its outputs' sums.
