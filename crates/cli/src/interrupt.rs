//! Ctrl-C: the first one ends the answer that is being made, and only that; without an answer in the
//! making, or at the second, the process ends.

use std::sync::{Mutex, PoisonError};

use foretoken_engine::AbortSignal;

use crate::failure::INTERRUPTED;
use crate::stderr;

static ANSWER: Mutex<Option<AbortSignal>> = Mutex::new(None);

/// Starts listening.
pub fn install() {
    let installed = ctrlc::set_handler(|| {
        let mut answer = ANSWER.lock().unwrap_or_else(PoisonError::into_inner);
        match answer.take() {
            Some(signal) => signal.abort(),
            None => std::process::exit(i32::from(INTERRUPTED)),
        }
    });
    if let Err(error) = installed {
        stderr::line(format_args!(
            "warning: Ctrl-C will end the process without keeping the answer: {error}"
        ));
    }
}

/// The signal that the next Ctrl-C raises, until [`release`].
pub fn take() -> AbortSignal {
    let signal = AbortSignal::new();
    *ANSWER.lock().unwrap_or_else(PoisonError::into_inner) = Some(signal.clone());
    signal
}

/// No answer is in the making any more.
pub fn release() {
    *ANSWER.lock().unwrap_or_else(PoisonError::into_inner) = None;
}
