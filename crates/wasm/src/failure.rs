//! Errors as JavaScript gets them.

use foretoken_engine::Error;
use wasm_bindgen::JsValue;

/// `{ message, type, code, param }`, the inside of OpenAI's error object.
pub(crate) fn thrown(error: &Error) -> JsValue {
    to_js(&error.to_object().error)
}

/// Any value that has a form in JSON.
pub(crate) fn to_js(value: &impl serde::Serialize) -> JsValue {
    serde_json::to_string(value)
        .ok()
        .and_then(|json| js_sys::JSON::parse(&json).ok())
        .unwrap_or(JsValue::NULL)
}
