//! A browser's adapter with its subgroups, which wgpu neither reports nor asks a device for (wgpu #10146), though it hands
//! WGSL to the browser as it is.
//!
//! wgpu calls `navigator.gpu.requestAdapter` and `adapter.requestDevice` the moment it is asked to. While it does, the object
//! has a method of its own before that of its class, which keeps the adapter or adds the feature.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;

use js_sys::{Array, Function, Object, Promise, Reflect};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

const SUBGROUPS: &str = "subgroups";

/// An adapter as wgpu has it, and as the browser has it.
pub(crate) struct Adapter {
    wgpu: wgpu::Adapter,
    browser: JsValue,
}

impl Deref for Adapter {
    type Target = wgpu::Adapter;

    fn deref(&self) -> &wgpu::Adapter {
        &self.wgpu
    }
}

impl Adapter {
    /// The adapter that the browser offers, if it does.
    pub(crate) async fn request(
        instance: &wgpu::Instance,
        options: &wgpu::RequestAdapterOptions<'_, '_>,
    ) -> Option<Self> {
        let gpu = get(&get(&js_sys::global(), "navigator"), "gpu");
        let asked = Rc::new(RefCell::new(None));
        let keep = Rc::clone(&asked);
        let request = during(
            &gpu,
            "requestAdapter",
            move |answer| {
                *keep.borrow_mut() = answer.dyn_ref::<Promise>().cloned();
            },
            |_| {},
            || instance.request_adapter(options),
        );
        let wgpu = request.await.ok()?;
        let asked = asked.borrow_mut().take();
        let browser = match asked {
            Some(promise) => JsFuture::from(promise).await.unwrap_or_default(),
            None => JsValue::UNDEFINED,
        };
        Some(Self { wgpu, browser })
    }

    /// Whether kernels may use subgroup operations.
    pub(crate) fn has_subgroups(&self) -> bool {
        let features = get(&self.browser, "features");
        let has = get(&features, "has").dyn_into::<Function>();
        has.and_then(|has| has.call1(&features, &SUBGROUPS.into()))
            .is_ok_and(|has| has.is_truthy())
    }

    /// Opens a device, with subgroups if `descriptor` has [`wgpu::Features::SUBGROUP`].
    pub(crate) async fn open(
        &self,
        descriptor: &wgpu::DeviceDescriptor<'_>,
    ) -> Result<(wgpu::Device, wgpu::Queue), wgpu::RequestDeviceError> {
        let subgroups = descriptor
            .required_features
            .contains(wgpu::Features::SUBGROUP);
        let known = wgpu::DeviceDescriptor {
            required_features: descriptor.required_features - wgpu::Features::SUBGROUP,
            ..descriptor.clone()
        };
        let add = move |descriptor: &JsValue| {
            if let Some(features) = get(descriptor, "requiredFeatures").dyn_ref::<Array>()
                && subgroups
            {
                features.push(&SUBGROUPS.into());
            }
        };
        let request = || self.wgpu.request_device(&known);
        during(&self.browser, "requestDevice", |_| {}, add, request).await
    }
}

/// Calls `call`, in which `object[method](argument)` goes through `before` with its argument and `after` with what it gives.
fn during<T>(
    object: &JsValue,
    method: &str,
    after: impl FnOnce(&JsValue) + 'static,
    before: impl FnOnce(&JsValue) + 'static,
    call: impl FnOnce() -> T,
) -> T {
    let name = JsValue::from_str(method);
    let Ok(original) = get(object, method).dyn_into::<Function>() else {
        return call();
    };
    let (this, function) = (object.clone(), original.clone());
    let wrapper = Closure::once(move |argument: JsValue| -> Result<JsValue, JsValue> {
        before(&argument);
        let answer = function.call1(&this, &argument)?;
        after(&answer);
        Ok(answer)
    });
    let own = object
        .dyn_ref::<Object>()
        .is_some_and(|object| Object::has_own(object, &name));
    // Refused for an object that cannot be changed, which then keeps its method: there are no subgroups.
    let _ = Reflect::set(object, &name, wrapper.as_ref());
    let result = call();
    if own {
        let _ = Reflect::set(object, &name, &original);
    } else if let Some(object) = object.dyn_ref::<Object>() {
        let _ = Reflect::delete_property(object, &name);
    }
    result
}

/// A property, or `undefined`.
fn get(object: &JsValue, name: &str) -> JsValue {
    Reflect::get(object, &name.into()).unwrap_or_default()
}
