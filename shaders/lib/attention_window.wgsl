// Where a row's window begins. Comes after `params`.
fn first_position(position: u32) -> u32 {
  return max(position + 1u, params.window) - params.window;
}
