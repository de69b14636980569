//! What the suites that cross crates share: golden files, where models lie, and a plain greedy loop.
//!
//! The one hard idea: **a suite is written once, generic over [`Ops`](foretoken_core::Ops)**, and names its
//! oracle. The expected values here come from transformers; swapping `CpuOps` for `GpuOps` in a test is the
//! whole difference between checking the model's definition and checking the kernels.

mod everywhere;
pub mod golden;
pub mod gpu;
pub mod greedy;
#[cfg(not(target_arch = "wasm32"))]
pub mod model_file;

/// Says on the terminal that a test does not run. Not `eprintln!`: the test harness would keep that to itself.
#[cfg(not(target_arch = "wasm32"))]
pub fn skip(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// Says in the browser's console, which the runner repeats, that a test does not run.
#[cfg(target_arch = "wasm32")]
pub fn skip(why: &str) {
    wasm_bindgen_test::console_log!("SKIPPED: {why}");
}

#[doc(hidden)]
pub mod reexport {
    #[cfg(not(target_arch = "wasm32"))]
    pub use pollster::block_on;
    #[cfg(target_arch = "wasm32")]
    pub use wasm_bindgen_test;
}
