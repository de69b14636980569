//! `rms_norm`: one workgroup a row.

use crate::gpu_ops::{GpuActivation, GpuOps, GpuVector, row_set_index};
use crate::ops::MAX_STEP_ROWS;
use crate::recording::{Access, Kernel, constants};

/// Barriers are dear where the processor computes: there a workgroup is as small as a vector of its. It decides the order of
/// summation.
const fn kernel(software: bool) -> Kernel {
    let workgroup = if software { 8 } else { 64 };
    Kernel {
        constants: constants([("WORKGROUP", workgroup), MAX_STEP_ROWS]),
        ..Kernel::new(
            "ops/rms_norm.wgsl",
            &[Access::Read, Access::Read, Access::Write],
        )
    }
}

pub(crate) fn catalog() -> Vec<Kernel> {
    vec![kernel(true), kernel(false)]
}

impl GpuOps {
    pub(crate) fn record_rms_norm(
        &mut self,
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
            &kernel(software),
            params,
            &[&x.buffer, &weight.buffer, &out.buffer],
            [rows, 1, 1],
        );
    }
}
