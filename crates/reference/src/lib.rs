//! [`CpuOps`]: every op in plain f32, the oracle the kernels are held against.
//!
//! The one hard idea: **an oracle must be right for reasons one can see**, and still fast enough to run a
//! whole model. So every op is a loop over its definition (`src/ops`, one file each), weights stay as the
//! file has them and are dequantised a row at a time, and the only cleverness is that rows of a matrix are
//! shared out between threads. Each output is one sum in one fixed order (`src/dot.rs`), whatever the
//! thread count and however many rows a pass has: row invariance holds by construction.
//!
//! Work happens when it is recorded; [`Ops::submit`](foretoken_core::Ops::submit) and the read-backs only
//! hand out what is already there.
//!
//! [`check_kernels`] holds other ops against it on a user's device.

mod activation;
mod cpu_ops;
mod dot;
mod kernel_check;
mod kv_cache;
mod matrix;
mod ops;
mod parallel;
mod pass;
mod rope_table;
#[cfg(test)]
mod testing;
mod zeros;

pub use activation::CpuActivation;
pub use cpu_ops::CpuOps;
pub use kernel_check::{KernelCheck, KernelFault, check_kernels};
pub use kv_cache::CpuKvCache;
pub use matrix::CpuMatrix;
pub use rope_table::CpuRopeTable;
