//! Holding the device's kernels against the reference, for a user who wants to know whether a browser computes rightly.

use foretoken_reference::{KernelCheck, check_kernels};
use foretoken_weights::quant::FORMATS;
use serde::Serialize;
use wasm_bindgen::prelude::*;

use crate::Device;
use crate::failure::{thrown, to_js};

/// What JavaScript gets of a kernel.
#[derive(Serialize)]
struct Checked {
    kernel: String,
    fault: Option<String>,
}

#[wasm_bindgen]
impl Device {
    /// Runs every kernel twice on known data and compares it with the same op on the CPU. `report` is called with each, as
    /// `{ kernel: string, fault: string | null }`; what comes back is the adapter it ran on. The device is used up.
    #[wasm_bindgen(js_name = checkKernels)]
    pub async fn check_kernels(self, report: js_sys::Function) -> Result<JsValue, JsValue> {
        let (mut ops, adapter) = self.into_parts();
        let half_precision_cache = ops.tier().f16;
        let mut tell = |KernelCheck { kernel, fault }| {
            let fault = fault.map(|fault| fault.to_string());
            let _ = report.call1(&JsValue::NULL, &to_js(&Checked { kernel, fault }));
        };
        check_kernels(&mut ops, FORMATS, half_precision_cache, &mut tell)
            .await
            .map_err(|error| thrown(&error.into()))?;
        Ok(to_js(&adapter))
    }
}
