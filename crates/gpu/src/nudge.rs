//! Making a browser look at its maps.
//!
//! That a map is done a browser may find out only now and then: Firefox looks every 100 ms, and whenever something is
//! submitted. So while a map is waited for, nothing is submitted, again and again.

/// Milliseconds before the first, and between any two at least.
const LEAST_MS: f64 = 2.0;
/// Of what was waited already: the share by which a map may be noticed late.
const SHARE: f64 = 0.125;

/// How long to pause after having waited for `waited_ms`, in whole milliseconds: longer and longer, so that a long wait costs few
/// submissions.
fn pause_ms(waited_ms: f64) -> i32 {
    // `as` saturates.
    (waited_ms * SHARE).max(LEAST_MS) as i32
}

#[cfg(target_arch = "wasm32")]
pub(crate) use browser::nudging;

#[cfg(target_arch = "wasm32")]
mod browser {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::Poll;

    use foretoken_core::Clock;
    use js_sys::{Function, Promise};
    use wasm_bindgen::prelude::*;
    use wasm_bindgen_futures::JsFuture;

    use super::pause_ms;

    #[wasm_bindgen]
    extern "C" {
        #[wasm_bindgen(js_name = setTimeout)]
        fn set_timeout(call: &Function, milliseconds: i32) -> JsValue;
    }

    fn pause(milliseconds: i32) -> JsFuture {
        JsFuture::from(Promise::new(&mut |resolve, _| {
            set_timeout(&resolve, milliseconds);
        }))
    }

    /// Waits for `map`, submitting nothing to the queue meanwhile.
    pub(crate) async fn nudging<F: Future>(queue: &wgpu::Queue, map: F) -> F::Output {
        let clock = Clock::start();
        let mut map = pin!(map);
        loop {
            let mut paused = pin!(pause(pause_ms(clock.elapsed_ms())));
            let mapped = poll_fn(|cx| match map.as_mut().poll(cx) {
                Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
                Poll::Pending => paused.as_mut().poll(cx).map(|_| None),
            })
            .await;
            match mapped {
                Some(outcome) => return outcome,
                None => {
                    queue.submit([]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::pause_ms;

    #[test]
    fn pauses_grow_with_the_wait() {
        for (waited_ms, pause) in [(0.0, 2), (16.0, 2), (30.0, 3), (800.0, 100), (60e3, 7500)] {
            assert_eq!(pause_ms(waited_ms), pause, "{waited_ms}");
        }
    }
}
