//! Cancelling from JavaScript.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Waker;

use foretoken_engine::AbortSignal;
use wasm_bindgen::prelude::*;

/// What ends one request: at once while it waits for its turn, and before its next pass while it works.
#[wasm_bindgen]
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    signal: AbortSignal,
    /// Of the task that works on the request: raising a signal wakes nobody.
    waker: Rc<RefCell<Option<Waker>>>,
}

#[wasm_bindgen]
impl Cancel {
    /// For one request.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends it, for good.
    pub fn cancel(&self) {
        self.signal.abort();
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Cancel {
    /// The engine's side of it.
    pub(crate) fn signal(&self) -> AbortSignal {
        self.signal.clone()
    }

    /// `work`, which looks at the signal again when it is raised.
    pub(crate) async fn watch<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            *self.waker.borrow_mut() = Some(context.waker().clone());
            work.as_mut().poll(context)
        })
        .await
    }
}
