//! `rms_norm`: one workgroup a row.

use crate::gpu_ops::{GpuActivation, GpuOps, GpuVector, row_set_index};
use crate::ops::MAX_STEP_ROWS;
use crate::recording::{Access, Kernel, constants};

const KERNEL: Kernel = Kernel {
    constants: constants([MAX_STEP_ROWS]),
    ..Kernel::new(
        "ops/rms_norm.wgsl",
        &[Access::Read, Access::Read, Access::Write],
    )
};

pub(crate) fn catalog() -> Vec<Kernel> {
    vec![KERNEL]
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
        self.recorder.dispatch(
            &KERNEL,
            params,
            &[&x.buffer, &weight.buffer, &out.buffer],
            [rows, 1, 1],
        );
    }
}
