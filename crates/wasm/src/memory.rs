//! What this instance takes.

use wasm_bindgen::prelude::*;

/// Bytes of the instance's memory, which only grows.
#[wasm_bindgen(js_name = memoryBytes)]
pub fn memory_bytes() -> f64 {
    let memory = wasm_bindgen::memory().unchecked_into::<js_sys::WebAssembly::Memory>();
    let buffer = memory.buffer().unchecked_into::<js_sys::ArrayBuffer>();
    f64::from(buffer.byte_length())
}
