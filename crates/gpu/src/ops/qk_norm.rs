//! `qk_norm`: one workgroup a head of q or k of a row.

use foretoken_core::AttentionShape;

use crate::gpu_ops::{GpuActivation, GpuOps, GpuVector};
use crate::ops::{MAX_STEP_ROWS, rms_norm::workgroup};
use crate::recording::{Access, Kernel, constants};

const fn kernel(software: bool) -> Kernel {
    Kernel {
        constants: constants([("WORKGROUP", workgroup(software)), MAX_STEP_ROWS]),
        ..Kernel::new("ops/qk_norm.wgsl", &[Access::Write, Access::Read])
    }
}

pub(crate) fn catalog() -> Vec<Kernel> {
    vec![kernel(true), kernel(false)]
}

impl GpuOps {
    pub(crate) fn record_qk_norm(
        &mut self,
        qkv: &GpuActivation,
        weight: &GpuVector,
        eps: f32,
        shape: &AttentionShape,
    ) {
        let (heads, kv_heads) = (shape.heads, shape.kv_heads);
        assert_eq!(
            (qkv.cols, weight.len),
            ((heads + 2 * kv_heads) * shape.head_dim, 2 * shape.head_dim),
            "qk_norm: columns"
        );
        let params = [
            heads,
            kv_heads,
            shape.head_dim / 4,
            eps.to_bits(),
            0,
            0,
            0,
            0,
        ];
        let software = self.recorder.gpu.report.software;
        let grid = [heads + kv_heads, self.pass.rows, 1];
        self.recorder.dispatch(
            &kernel(software),
            params,
            &[&qkv.buffer, &weight.buffer],
            grid,
        );
    }
}
