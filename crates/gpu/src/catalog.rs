//! Every kernel some device of a tier may run: what the compile tests hold naga and Tint to.

use foretoken_core::{Format, OpsError};

use crate::composer::{Composed, Overrides, Target};
use crate::gpu_ops::GpuOps;
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
    /// Lanes that a subgroup needs at least; 0 without subgroup operations.
    pub lanes: u32,
}

/// Every kernel of a tier over these formats, and whether only hardware runs it: those of device classes and those that a tuner
/// may take.
fn kernels(formats: &[Format], tier: Tier) -> Vec<(Kernel, bool)> {
    let mut kernels: Vec<Kernel> = ops::embed::catalog(formats);
    kernels.extend(ops::rms_norm::catalog());
    kernels.extend(ops::matmul::catalog(formats, tier));
    kernels.extend(ops::attention::catalog(tier));
    kernels.extend(ops::choose::catalog());
    kernels.extend(ops::logprobs::catalog());
    kernels.extend(ops::next_step::catalog());
    kernels.extend(probe::catalog());
    let hardware = ops::matmul::hardware_catalog(formats, tier);
    let both = kernels.into_iter().map(|kernel| (kernel, false));
    both.chain(hardware.into_iter().map(|kernel| (kernel, true)))
        .collect()
}

/// The same, composed for a target.
pub fn catalog(formats: &[Format], tier: Tier, target: Target) -> Vec<CatalogEntry> {
    let none = Overrides::new();
    let kernels = kernels(formats, tier);
    let entry = |(kernel, hardware): (Kernel, bool)| CatalogEntry {
        label: kernel.label(),
        composed: kernel.compose(target, &none),
        hardware,
        lanes: kernel.lanes,
    };
    kernels.into_iter().map(entry).collect()
}

impl GpuOps {
    /// Makes the pipeline of every kernel that this device may come to run over these formats, and says how many there
    /// are.
    ///
    /// # Errors
    /// The first that the driver does not compile.
    pub async fn compile_catalog(&mut self, formats: &[Format]) -> Result<usize, OpsError> {
        let report = self.adapter().clone();
        let mut made = 0;
        for (kernel, hardware) in kernels(formats, self.tier()) {
            if kernel.lanes <= report.subgroup_size.0 && !(hardware && report.software) {
                self.recorder.compile(&kernel).await?;
                made += 1;
            }
        }
        Ok(made)
    }
}
