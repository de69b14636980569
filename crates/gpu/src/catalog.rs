//! Every kernel some device of a tier may run: what the compile tests hold naga and Tint to.

use foretoken_core::Format;

use crate::composer::{Composed, Overrides, Target};
use crate::ops;
use crate::probe;
use crate::recording::Kernel;
use crate::tier::Tier;

/// One composed kernel.
#[derive(Debug, Clone)]
pub struct CatalogEntry {
    /// `matmul[q4_1,…]`.
    pub label: String,
    /// Its text.
    pub composed: Composed,
    /// Whether only a device that does not compute on the CPU may come to run it.
    pub hardware: bool,
}

/// Every kernel of a tier over these formats, composed for a target: those of device classes and those that a tuner may
/// take.
pub fn catalog(formats: &[Format], tier: Tier, target: Target) -> Vec<CatalogEntry> {
    let none = Overrides::new();
    let mut kernels: Vec<Kernel> = ops::embed::catalog(formats);
    kernels.extend(ops::rms_norm::catalog());
    kernels.extend(ops::matmul::catalog(formats, tier));
    kernels.extend(ops::attention::catalog(tier));
    kernels.extend(ops::choose::catalog());
    kernels.extend(ops::logprobs::catalog());
    kernels.extend(ops::next_step::catalog());
    kernels.extend(probe::catalog());
    let entry = |kernel: &Kernel, hardware| CatalogEntry {
        label: kernel.label(),
        composed: kernel.compose(target, &none),
        hardware,
    };
    let hardware = ops::matmul::hardware_catalog(formats, tier);
    kernels
        .iter()
        .map(|kernel| entry(kernel, false))
        .chain(hardware.iter().map(|kernel| entry(kernel, true)))
        .collect()
}
