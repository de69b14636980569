//! The kernels some device of a tier may run: what the compile tests hold naga and Tint to.

use std::collections::HashSet;

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

/// Which kernels a catalog has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// Every file of a slot with every other and with every value of every constant: the product.
    Full,
    /// Every two files of two slots, every two values of two constants, and every file with every value, beside one another in some
    /// kernel; and for two formats every variant of a matmul.
    ///
    /// A format meets files, not values. It is a text of its own, and meets the rest of a kernel in the names that it declares and the
    /// eight functions that are called: how many outputs and rows a thread takes, how many threads share one, and how many lanes there
    /// are reaches none of its lines.
    Pairwise,
}

/// The formats that go through every variant: one with a scale a block, and the longest text, with two.
const REPRESENTATIVES: [&str; 2] = ["quant/q8_0.wgsl", "quant/q6_k.wgsl"];

/// What fills a slot or is a constant's value: its name, and file or number.
type Setting = (&'static str, &'static str, u32);

/// What a pairwise catalog has so far.
#[derive(Default)]
struct Covered {
    pairs: HashSet<(&'static str, Setting, Setting)>,
    variants: HashSet<Kernel>,
}

impl Covered {
    /// Whether a kernel has what none before it had.
    fn takes(&mut self, kernel: &Kernel) -> bool {
        let slots = kernel.slots.iter().map(|(name, file)| (*name, *file, 0));
        let constants = kernel.constants.iter().map(|(name, n)| (*name, "", *n));
        let settings: Vec<Setting> = slots.chain(constants).filter(|s| !s.0.is_empty()).collect();
        let is_format = |(name, ..): &Setting| *name == "quant";
        let is_constant = |(_, file, _): &Setting| file.is_empty();
        let mut new = false;
        for (at, first) in settings.iter().enumerate() {
            // A kernel of few choices has none to pair: alone it counts too.
            for second in &settings[at..] {
                if !(is_format(first) && is_constant(second)) {
                    new |= self.pairs.insert((kernel.file, *first, *second));
                }
            }
        }
        if settings
            .iter()
            .any(|(_, file, _)| REPRESENTATIVES.contains(file))
        {
            let mut variant = *kernel;
            variant.slots.iter_mut().for_each(|(name, file)| {
                if ["epilogue", "glu"].contains(name) {
                    *file = "";
                }
            });
            variant.constants.iter_mut().for_each(|(name, value)| {
                if *name == "PAIR" {
                    *value = 0;
                }
            });
            new |= self.variants.insert(variant);
        }
        new || settings.is_empty() && self.variants.insert(*kernel)
    }
}

/// The kernels of a tier over these formats, and whether only hardware runs each: those of device classes and those that a tuner
/// may take.
fn kernels(formats: &[Format], tier: Tier, coverage: Coverage) -> Vec<(Kernel, bool)> {
    let mut kernels: Vec<Kernel> = ops::embed::catalog(formats);
    kernels.extend(ops::rms_norm::catalog());
    kernels.extend(ops::qk_norm::catalog());
    kernels.extend(ops::matmul::catalog(formats, tier));
    kernels.extend(ops::attention::catalog(tier));
    kernels.extend(ops::choose::catalog());
    kernels.extend(ops::logprobs::catalog());
    kernels.extend(ops::next_step::catalog());
    kernels.extend(ops::draft::catalog());
    kernels.extend(probe::catalog());
    let hardware = ops::matmul::hardware_catalog(formats, tier);
    let both = kernels.into_iter().map(|kernel| (kernel, false));
    let mut kernels: Vec<_> = both
        .chain(hardware.into_iter().map(|kernel| (kernel, true)))
        .collect();
    if coverage == Coverage::Pairwise {
        let mut covered = Covered::default();
        kernels.retain(|(kernel, _)| covered.takes(kernel));
    }
    kernels
}

/// The same, composed for a target.
pub fn catalog(
    formats: &[Format],
    tier: Tier,
    coverage: Coverage,
    target: Target,
) -> Vec<CatalogEntry> {
    let none = Overrides::new();
    let kernels = kernels(formats, tier, coverage);
    let entry = |(kernel, hardware): (Kernel, bool)| CatalogEntry {
        label: kernel.label(),
        composed: kernel.compose(target, &none),
        hardware,
        lanes: kernel.lanes,
    };
    kernels.into_iter().map(entry).collect()
}

impl GpuOps {
    /// Makes the pipelines of the catalog's kernels that this device may come to run over these formats, and says how many there
    /// are.
    ///
    /// # Errors
    /// The first that the driver does not compile.
    pub async fn compile_catalog(
        &mut self,
        formats: &[Format],
        coverage: Coverage,
    ) -> Result<usize, OpsError> {
        let report = self.adapter().clone();
        let mut made = 0;
        for (kernel, hardware) in kernels(formats, self.tier(), coverage) {
            if kernel.lanes <= report.subgroup_size.0 && !(hardware && report.software) {
                self.recorder.compile(&kernel).await?;
                made += 1;
            }
        }
        Ok(made)
    }
}
