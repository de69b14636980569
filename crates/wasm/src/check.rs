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
    /// options the load takes the longest that the limits allow, the default at most. With the draft model's header, tells why the
    /// draft would be left out, if it would.
    pub async fn check(
        &mut self,
        file: ByteRanges,
        draft: Option<ByteRanges>,
    ) -> Result<Option<String>, JsValue> {
        let source = JsSource::new(file);
        let draft = draft.map(JsSource::new);
        let beside = self.draft_source(draft.as_ref(), None);
        self.ops.set_planning(true);
        let planned = plan(&mut self.ops, &source, beside.as_ref(), &self.options).await;
        self.ops.set_planning(false);
        let planned = planned.map_err(|error| thrown(&error))?;
        self.options.context_length = Some(planned.context_length);
        Ok(planned.draft_problem.filter(|_| draft.is_some()))
    }
}
