//! A loaded engine.

use foretoken_engine::routes::{Request, Routes};
use foretoken_engine::{RowInvariance, SpeculationStatus};
use foretoken_gpu::GpuOps;
use serde::Serialize;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{future_to_promise, spawn_local};

use crate::device::Adapter;
use crate::failure::{thrown, to_js};
use crate::{Cancel, Reply};

/// An engine. Dropping it (`free`) gives back what it holds once its requests have ended.
#[wasm_bindgen]
pub struct Engine {
    routes: Routes<GpuOps>,
    adapter: Adapter,
    device_bytes: u64,
}

/// What [`Engine::info`] tells.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Info<'a> {
    version: &'static str,
    model: &'a str,
    context_length: u32,
    adapter: &'a Adapter,
    /// Bytes of all buffers on the device after loading.
    device_bytes: u64,
    speculation: SpeculationStatus,
    row_invariance: &'static str,
}

impl Engine {
    pub(crate) fn new(
        engine: foretoken_engine::Engine<GpuOps>,
        adapter: Adapter,
        device_bytes: u64,
    ) -> Self {
        Self {
            routes: Routes::new(engine),
            adapter,
            device_bytes,
        }
    }
}

#[wasm_bindgen]
impl Engine {
    /// Answers a request to one of the routes; what goes wrong is a reply with a status from 400 on. Requests take turns in
    /// the order of the calls.
    pub async fn request(
        &self,
        method: String,
        path: String,
        body: String,
        cancel: &Cancel,
    ) -> Reply {
        let request = Request {
            method: &method,
            path: &path,
            body: body.as_bytes(),
        };
        let cancel = cancel.clone();
        let reply = cancel
            .watch(self.routes.handle(request, cancel.signal()))
            .await;
        Reply::new(reply, cancel)
    }

    /// Uses a pause between requests to prepare for the next turn of a conversation; a request ends it.
    pub fn rest(&self) {
        let engine = self.routes.engine().clone();
        spawn_local(async move {
            // The next request meets whatever went wrong, and says so.
            let _ = engine.idle().await;
        });
    }

    /// The tokens of a text as a prompt has them, the token that begins it included where the model has one.
    pub fn tokenize(&self, text: &str) -> Result<Vec<u32>, JsValue> {
        let tokenizer = self.routes.engine().tokenizer();
        tokenizer
            .encode_prompt(text, true, tokenizer.adds_bos())
            .map_err(|error| thrown(&error.into()))
    }

    /// The text of each token by itself. Bytes that are no character alone become U+FFFD.
    pub fn detokenize(&self, tokens: Vec<u32>) -> Vec<String> {
        let tokenizer = self.routes.engine().tokenizer();
        let piece = |token: u32| String::from_utf8_lossy(tokenizer.token_bytes(token)).into_owned();
        tokens.into_iter().map(piece).collect()
    }

    /// What passes of the model cost: `[rows, milliseconds][]`, measured between requests.
    #[wasm_bindgen(js_name = passTimes)]
    pub fn pass_times(&self) -> js_sys::Promise {
        let engine = self.routes.engine().clone();
        // Not borrowed: `free` may come meanwhile.
        future_to_promise(async move {
            let times = engine.pass_times().await;
            times
                .map(|times| to_js(&times))
                .map_err(|error| thrown(&error))
        })
    }

    /// Totals over all requests.
    pub fn metrics(&self) -> JsValue {
        to_js(&self.routes.engine().metrics())
    }

    /// Whether the draft model was left out since its file is damaged.
    #[wasm_bindgen(getter, js_name = draftIsCorrupt)]
    pub fn draft_is_corrupt(&self) -> bool {
        let failure = self.routes.engine().draft_failure();
        failure.is_some_and(|failure| failure.is_corrupt)
    }

    /// What runs where.
    pub fn info(&self) -> JsValue {
        let engine = self.routes.engine();
        to_js(&Info {
            version: env!("CARGO_PKG_VERSION"),
            model: engine.model_name(),
            context_length: engine.limits().context,
            adapter: &self.adapter,
            device_bytes: self.device_bytes,
            speculation: engine.speculation(),
            row_invariance: match engine.row_invariance() {
                RowInvariance::Holds => "holds",
                RowInvariance::HoldsPadded { .. } => "holds_padded",
                RowInvariance::Broken { .. } => "broken",
                _ => "not_checked",
            },
        })
    }
}
