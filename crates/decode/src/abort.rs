//! Stopping a generation from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that ends a generation before its next pass. Clones share it, across threads too, so that a
/// signal handler can raise it; each request has its own.
#[derive(Debug, Clone, Default)]
pub struct AbortSignal(Arc<AtomicBool>);

impl AbortSignal {
    /// A flag that is down.
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises the flag, for good.
    pub fn abort(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the flag is up.
    pub fn is_aborted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
