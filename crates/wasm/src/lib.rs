//! The engine for JavaScript: a device, an engine on it, requests to its routes.
//!
//! The one hard idea: **JavaScript reads bytes and waits, Rust does the rest.** Where a file comes from (a network, a disk, the
//! browser's storage) is JavaScript's: it hands over an object that reads ranges ([`ByteRanges`]). What a request means is
//! the engine's: JavaScript hands over method, path and body, and gets a reply or a stream of events, the same as an HTTP client
//! would. So nothing here knows a model, a parameter of a request or the network.
//!
//! Errors are thrown as `{ code, message, param }`. A panic cannot unwind here: the instance is lost, and
//! [`on_panic`] tells JavaScript so at once, since a promise that was being worked on would otherwise never settle.
//!
//! Used by the npm package in `pkg/`, by `src/local.ts` and `src/open.ts`.

mod cancel;
mod check;
mod check_kernels;
mod device;
mod engine;
mod failure;
mod memory;
mod panics;
mod reply;
mod sha256;
mod source;

pub use cancel::Cancel;
pub use device::Device;
pub use engine::Engine;
pub use memory::memory_bytes;
pub use panics::on_panic;
pub use reply::Reply;
pub use sha256::Sha256;
pub use source::ByteRanges;
