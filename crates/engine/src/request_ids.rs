//! Ids of requests: unique within an engine, and with all likelihood between engines.

use std::cell::Cell;

use foretoken_core::since_unix_epoch;

/// Hands out ids.
#[derive(Debug)]
pub(crate) struct RequestIds {
    /// When the engine was loaded, in nanoseconds: no random source is needed.
    origin: u64,
    next: Cell<u32>,
}

impl RequestIds {
    pub(crate) fn new() -> Self {
        let origin = since_unix_epoch().as_nanos() as u64;
        Self {
            origin,
            next: Cell::new(0),
        }
    }

    /// The next id, as in `chatcmpl-17f3…`.
    pub(crate) fn next(&self, prefix: &str) -> String {
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        format!("{prefix}-{:016x}{number:08x}", self.origin)
    }
}
