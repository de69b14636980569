//! Replies and their streams.

use std::cell::RefCell;

use foretoken_engine::routes::{self, Body, Events};
use foretoken_gpu::GpuOps;
use wasm_bindgen::prelude::*;

use crate::Cancel;

/// What a request is answered with.
#[wasm_bindgen]
pub struct Reply {
    status: u16,
    content_type: &'static str,
    allow: Option<&'static str>,
    whole: Option<String>,
    /// Out while somebody waits for the next event; gone when the stream has ended.
    events: RefCell<Option<Box<Events<GpuOps>>>>,
    cancel: Cancel,
}

impl Reply {
    pub(crate) fn new(reply: routes::Reply<GpuOps>, cancel: Cancel) -> Self {
        let (whole, events) = match reply.body {
            Body::Whole(text) => (Some(text), None),
            Body::Events(events) => (None, Some(events)),
        };
        Self {
            status: reply.status,
            content_type: reply.content_type,
            allow: reply.allow,
            whole,
            events: RefCell::new(events),
            cancel,
        }
    }
}

#[wasm_bindgen]
impl Reply {
    /// The HTTP status.
    #[wasm_bindgen(getter)]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The value of `content-type`.
    #[wasm_bindgen(getter, js_name = contentType)]
    pub fn content_type(&self) -> String {
        self.content_type.to_owned()
    }

    /// The value of `allow`, with status 405.
    #[wasm_bindgen(getter)]
    pub fn allow(&self) -> Option<String> {
        self.allow.map(str::to_owned)
    }

    /// The body; undefined where it is a stream.
    #[wasm_bindgen(getter)]
    pub fn body(&self) -> Option<String> {
        self.whole.clone()
    }

    /// The next event of a stream as it goes over the wire, its empty line included; undefined after the last. One call at a time.
    pub async fn next(&self) -> Option<String> {
        let mut events = self.events.borrow_mut().take()?;
        let event = self.cancel.watch(events.next()).await;
        if event.is_some() {
            *self.events.borrow_mut() = Some(events);
        }
        event
    }
}
