//! What a device needs in a browser: an end to every wait, an end of its own, and a `createBuffer` that does not throw.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use foretoken_core::{Clock, OpsError};
use js_sys::{Function, Object, Reflect};
use wasm_bindgen::prelude::*;

use crate::device::{Fault, lock};
use crate::nudge::nudging;
use crate::patience::{Patience, Verdict};

#[wasm_bindgen]
extern "C" {
    // Of a window as of a worker.
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(call: &JsValue, ms: u32) -> JsValue;

    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(timer: &JsValue);
}

/// Between two looks at the clock.
const LOOK_MS: u32 = 500;
/// `GPUBufferUsage.COPY_DST`.
const COPY_DST: u32 = 8;

/// A worker has no document: its timers stand still when the page is frozen.
fn is_visible() -> bool {
    let get = |of: &JsValue, name: &str| Reflect::get(of, &name.into()).ok();
    get(&js_sys::global(), "document")
        .filter(JsValue::is_object)
        .and_then(|document| get(&document, "visibilityState"))
        .is_none_or(|state| state != "hidden")
}

/// A device of the browser. Dropping it destroys the device: else its memory would be held until the next collection of
/// garbage, which knows nothing of it.
pub(crate) struct Lease {
    device: wgpu::Device,
    queue: wgpu::Queue,
    fault: Arc<Mutex<Fault>>,
    clock: Clock,
    /// Pipelines that were made, and how many of them when what was last waited for was asked for.
    compiled: Cell<u32>,
    caught_up: Cell<u32>,
    is_software: bool,
    /// The wait under way.
    patience: RefCell<Option<Patience>>,
    /// Set when the device answers.
    answered: RefCell<Arc<AtomicBool>>,
    timer: RefCell<Option<JsValue>>,
    /// Whether the browser has to be made to look at its maps.
    nudges: Cell<bool>,
    look: Closure<dyn FnMut()>,
    thrown: Rc<RefCell<Option<String>>>,
    _create_buffer: Closure<dyn FnMut(JsValue) -> JsValue>,
    _uncaptured_error: Closure<dyn FnMut(JsValue)>,
}

/// While it lives, the device may not be silent for too long.
pub(crate) struct Wait<'l>(&'l Lease);

impl Lease {
    /// Of a device that was just opened.
    pub(crate) fn new(
        device: &wgpu::Device,
        queue: &wgpu::Queue,
        fault: &Arc<Mutex<Fault>>,
        is_software: bool,
    ) -> Result<Rc<Self>, OpsError> {
        let thrown = Rc::default();
        let create_buffer =
            caught_create_buffer(browser_device(device), &thrown).map_err(|error| {
                device.destroy();
                OpsError::OutOfMemory {
                    what: "a first buffer".to_owned(),
                    needed: 16,
                    available: said(&error),
                }
            })?;
        let uncaptured_error = caught_internal_errors(browser_device(device), fault);
        Ok(Rc::new_cyclic(|lease: &Weak<Self>| {
            let lease = lease.clone();
            let look = Closure::new(move || {
                if let Some(lease) = lease.upgrade() {
                    lease.look();
                }
            });
            Self {
                device: device.clone(),
                queue: queue.clone(),
                fault: Arc::clone(fault),
                clock: Clock::start(),
                compiled: Cell::default(),
                caught_up: Cell::default(),
                is_software,
                patience: RefCell::default(),
                answered: RefCell::default(),
                timer: RefCell::default(),
                nudges: Cell::default(),
                look,
                thrown,
                _create_buffer: create_buffer,
                _uncaptured_error: uncaptured_error,
            }
        }))
    }

    /// The browser's own object.
    pub(crate) fn device(&self) -> &Object {
        browser_device(&self.device)
    }

    /// What `createBuffer` threw since the last look.
    pub(crate) fn take_thrown(&self) -> Option<String> {
        self.thrown.take()
    }

    /// Sets whether the browser has to be made to look at its maps.
    pub(crate) fn nudge(&self, needed: bool) {
        self.nudges.set(needed);
    }

    /// Waits for a map in the way that this browser needs.
    pub(crate) async fn nudging<F: Future>(&self, map: F) -> F::Output {
        if self.nudges.get() {
            nudging(&self.queue, map).await
        } else {
            map.await
        }
    }

    /// Something is compiled: waits for what comes after it may take longer.
    pub(crate) fn compiles(&self) {
        self.compiled.set(self.compiled.get().wrapping_add(1));
    }

    /// How many pipelines were made so far.
    pub(crate) fn compiled(&self) -> u32 {
        self.compiled.get()
    }

    /// What was asked for after so many pipelines was done.
    pub(crate) fn caught_up(&self, compiled: u32) {
        self.caught_up.set(compiled);
    }

    /// Begins to wait; one wait at a time.
    pub(crate) fn wait(&self) -> Wait<'_> {
        debug_assert!(self.patience.borrow().is_none(), "one wait at a time");
        let is_slow = self.is_software || self.compiled.get() != self.caught_up.get();
        let patience = Patience::new(is_slow, self.clock.elapsed_ms());
        self.patience.replace(Some(patience));
        self.look_again();
        Wait(self)
    }

    /// A timer runs while there is a wait, and once more.
    fn look_again(&self) {
        let start = || set_timeout(self.look.as_ref(), LOOK_MS);
        self.timer.borrow_mut().get_or_insert_with(start);
    }

    fn look(&self) {
        self.timer.take();
        let answered = self.answered.borrow().load(Ordering::Relaxed);
        let looked = self.patience.borrow_mut().as_mut().map(|wait| {
            let verdict = wait.look(self.clock.elapsed_ms(), is_visible(), answered);
            (verdict, wait.seconds())
        });
        let Some((verdict, seconds)) = looked else {
            return;
        };
        match verdict {
            Verdict::Wait => {}
            Verdict::Ask => {
                let answer = Arc::new(AtomicBool::new(false));
                self.answered.replace(Arc::clone(&answer));
                self.queue.submit([]);
                self.queue
                    .on_submitted_work_done(move || answer.store(true, Ordering::Relaxed));
            }
            Verdict::GiveUp => {
                lock(&self.fault).lose(format!("it has not answered for {seconds} s"));
            }
        }
        self.look_again();
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.patience.take();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            clear_timeout(&timer);
        }
        // Its closure ends with this.
        let _ = Reflect::set(self.device(), &UNCAPTURED.into(), &JsValue::NULL);
        self.device.destroy();
    }
}

fn browser_device(device: &wgpu::Device) -> &Object {
    device.as_webgpu().expect("a browser's device")
}

/// Puts a `createBuffer` before the device's own that gives a small buffer where that one throws, since wgpu takes no
/// exception from it, and remembers what was thrown.
fn caught_create_buffer(
    device: &Object,
    thrown: &Rc<RefCell<Option<String>>>,
) -> Result<Closure<dyn FnMut(JsValue) -> JsValue>, JsValue> {
    let name = JsValue::from_str("createBuffer");
    let own: Function = Reflect::get(device, &name)?.unchecked_into();
    let descriptor = Object::new();
    Reflect::set(&descriptor, &"size".into(), &16.into())?;
    Reflect::set(&descriptor, &"usage".into(), &COPY_DST.into())?;
    let stand_in = own.call1(device, &descriptor)?;
    let (thrown, this) = (Rc::clone(thrown), device.clone());
    let caught = Closure::new(move |descriptor: JsValue| {
        own.call1(&this, &descriptor).unwrap_or_else(|error| {
            thrown.replace(Some(said(&error)));
            stand_in.clone()
        })
    });
    Reflect::set(device, &name, caught.as_ref())?;
    Ok(caught)
}

const UNCAPTURED: &str = "onuncapturederror";

/// Puts itself before the handler that wgpu installed, which panics at a `GPUInternalError`: a driver's compiler that fails.
fn caught_internal_errors(
    device: &Object,
    fault: &Arc<Mutex<Fault>>,
) -> Closure<dyn FnMut(JsValue)> {
    let get = |of: &JsValue, key: &str| Reflect::get(of, &key.into()).unwrap_or_default();
    let own = get(device, UNCAPTURED).dyn_into::<Function>().ok();
    let (fault, this) = (Arc::clone(fault), device.clone());
    let caught = Closure::new(move |event: JsValue| {
        let error = get(&event, "error");
        let class = get(&get(&error, "constructor"), "name").as_string();
        match (class.as_deref(), &own) {
            (Some("GPUValidationError" | "GPUOutOfMemoryError"), Some(own)) => {
                let _ = own.call1(&this, &event);
            }
            _ => lock(&fault).report(OpsError::Kernel {
                kernel: "driver".to_owned(),
                reason: said(&error),
            }),
        }
    });
    let _ = Reflect::set(device, &UNCAPTURED.into(), caught.as_ref());
    caught
}

/// The first line of what was thrown.
fn said(thrown: &JsValue) -> String {
    let message = Reflect::get(thrown, &"message".into()).unwrap_or_default();
    let text = message.as_string().unwrap_or_default();
    format!(
        "the browser says: {}",
        text.lines().next().unwrap_or_default()
    )
}
