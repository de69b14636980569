//! What happens when our own code breaks an invariant.

use std::cell::RefCell;

use wasm_bindgen::prelude::*;

thread_local! {
    /// Whom to tell. A hook must be `Sync`, which a function of JavaScript is not; there is one thread.
    static REPORT: RefCell<Option<js_sys::Function>> = const { RefCell::new(None) };
}

/// Calls `report` with a line of text when this instance panics. Nothing of the instance may be used afterwards.
#[wasm_bindgen(js_name = onPanic)]
pub fn on_panic(report: js_sys::Function) {
    REPORT.with(|place| place.replace(Some(report)));
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        REPORT.with(|report| {
            // Taken out: should JavaScript call back in and that panic too, nobody is told twice.
            if let Some(report) = report.take() {
                let _ = report.call1(&JsValue::NULL, &JsValue::from_str(&text));
            }
        });
    }));
}
