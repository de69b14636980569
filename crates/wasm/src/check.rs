//! Looking at a file before its bytes are fetched.

use foretoken_engine::plan;
use wasm_bindgen::prelude::*;

use crate::Device;
use crate::failure::thrown;
use crate::source::{ByteRanges, JsSource};

#[wasm_bindgen]
impl Device {
    /// Reads a model's header and throws what [`Device::load`] would throw of it: what this build cannot load, options that do not
    /// fit the model, allocations beyond the device's limits. Nothing is allocated; the weights are not read. Without a context in the
    /// options the load takes the longest that the limits allow, the default at most.
    pub async fn check(&mut self, file: ByteRanges) -> Result<(), JsValue> {
        let source = JsSource::new(file);
        self.ops.set_planning(true);
        let planned = plan(&mut self.ops, &source, &self.options).await;
        self.ops.set_planning(false);
        let context = planned.map_err(|error| thrown(&error))?;
        self.options.context_length = Some(context);
        Ok(())
    }
}
