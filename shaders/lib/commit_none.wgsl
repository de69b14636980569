// Slot `commit`: nothing is counted.
fn commit(sequence: u32, token: u32) {
}
