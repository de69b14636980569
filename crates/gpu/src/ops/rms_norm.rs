//! `rms_norm` and `rms_norm_add`: one workgroup a row.

use crate::gpu_ops::{GpuActivation, GpuOps, GpuVector, row_set_index};
use crate::ops::MAX_STEP_ROWS;
use crate::recording::{Access, Kernel, constants, slots};

/// Barriers are dear where the processor computes: there a workgroup is as small as a vector of its. It decides the order of
/// summation.
pub(crate) const fn workgroup(software: bool) -> u32 {
    if software { 8 } else { 64 }
}

/// Where the norm goes: the file of the slot `norm`.
const STORE: &str = "lib/norm_store.wgsl";
const ADD: &str = "lib/norm_add.wgsl";

const fn kernel(software: bool, norm: &'static str) -> Kernel {
    Kernel {
        constants: constants([("WORKGROUP", workgroup(software)), MAX_STEP_ROWS]),
        slots: slots([("norm", norm)]),
        ..Kernel::new(
            "ops/rms_norm.wgsl",
            &[Access::Read, Access::Read, Access::Write],
        )
    }
}

pub(crate) fn catalog() -> Vec<Kernel> {
    [STORE, ADD]
        .into_iter()
        .flat_map(|norm| [kernel(true, norm), kernel(false, norm)])
        .collect()
}

impl GpuOps {
    pub(crate) fn record_rms_norm(
        &mut self,
        x: &GpuActivation,
        weight: &GpuVector,
        eps: f32,
        out: &GpuActivation,
    ) {
        self.norm(STORE, x, weight, eps, out);
    }

    pub(crate) fn record_rms_norm_add(
        &mut self,
        x: &GpuActivation,
        weight: &GpuVector,
        eps: f32,
        out: &GpuActivation,
    ) {
        assert_eq!(x.rows, out.rows, "rms_norm_add: rows");
        self.norm(ADD, x, weight, eps, out);
    }

    fn norm(
        &mut self,
        norm: &'static str,
        x: &GpuActivation,
        weight: &GpuVector,
        eps: f32,
        out: &GpuActivation,
    ) {
        assert_eq!(
            (x.cols, x.cols),
            (weight.len, out.cols),
            "rms_norm: columns"
        );
        let (from, to) = (row_set_index(x.rows), row_set_index(out.rows));
        let params = [x.cols / 4, eps.to_bits(), from, to, 0, 0, 0, 0];
        let rows = self.pass.rows_of(out.rows);
        let software = self.recorder.gpu.report.software;
        self.recorder.dispatch(
            &kernel(software, norm),
            params,
            &[&x.buffer, &weight.buffer, &out.buffer],
            [rows, 1, 1],
        );
    }
}
