//! `GpuOps`: the ops as WGSL kernels on wgpu, in a browser and natively.
//!
//! The one hard idea: **the bits of a row never depend on the rows around it.** Verifying five drafts is a pass of
//! six rows; decoding plainly is six passes of one. For speculation to change nothing, row *i* must come out bit for
//! bit the same in both. So no kernel splits a sum by the number of rows: a thread sums a row over the blocks of its
//! inner dimension in one fixed order, attention is cut at fixed absolute positions, and the row count only decides
//! how many rows a thread carries along in registers. WGSL lets compilers fuse and reassociate, and pipelines for 1,
//! 2 and 4 rows compile apart, so the promise is checked on the device at every load.
//!
//! - [`composer`]: shader files + slots + constants → WGSL with a line map;
//! - `recording`: pipelines, bind groups and the dispatches of a step, with exact [`Counters`];
//! - `matrix`: weights repacked and interleaved;
//! - `ops`: one file an op;
//! - `probe`: what the device could do at best;
//! - `tune`: which shape of the matmul kernels is fastest there.

#[cfg(target_arch = "wasm32")]
mod browser;
#[cfg(target_arch = "wasm32")]
mod browser_adapter;
mod catalog;
pub mod composer;
mod counters;
mod device;
mod gpu_ops;
mod matmul_shape;
mod matrix;
#[cfg(not(target_arch = "wasm32"))]
mod native_adapter;
#[cfg(any(test, target_arch = "wasm32"))]
mod nudge;
mod ops;
mod pace;
#[cfg(any(test, target_arch = "wasm32"))]
mod patience;
mod planned;
mod probe;
mod recording;
mod scratch;
mod shader_text;
mod shaders;
mod steps_in_flight;
mod tier;
mod tune;

pub use catalog::{CatalogEntry, Coverage, catalog};
pub use counters::Counters;
pub use device::{AdapterReport, adapters};
pub use gpu_ops::{GpuActivation, GpuKvCache, GpuOps, GpuOptions, GpuRopeTable, GpuVector};
pub use matmul_shape::MatmulShape;
pub use matrix::GpuMatrix;
pub use planned::PlannedBytes;
pub use probe::Roofline;
pub use recording::{Profile, ProfileEntry};
pub use shaders::FILES as SHADER_FILES;
pub use tier::Tier;
pub use tune::{Measured, TunedMatrix, Tuning};
