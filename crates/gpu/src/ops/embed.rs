//! `embed`: one thread a block of 32 weights; a dispatch per slab of the table, each row found in one of them.

use foretoken_core::Format;

use crate::gpu_ops::{GpuActivation, GpuOps};
use crate::matrix::GpuMatrix;
use crate::ops::{MAX_STEP_ROWS, matmul::quant_file};
use crate::recording::{Access, Kernel, constants, slots};

const KERNEL: Kernel = Kernel::new(
    "ops/embed.wgsl",
    &[Access::Read, Access::Read, Access::Read, Access::Write],
);

fn kernel(format: Format) -> Kernel {
    Kernel {
        slots: slots([("quant", quant_file(format))]),
        constants: constants([MAX_STEP_ROWS]),
        ..KERNEL
    }
}

pub(crate) fn catalog(formats: &[Format]) -> Vec<Kernel> {
    formats.iter().map(|format| kernel(*format)).collect()
}

impl GpuOps {
    pub(crate) fn record_embed(&mut self, table: &GpuMatrix, scale: f32, out: &GpuActivation) {
        assert_eq!(
            table.cols, out.cols,
            "embed: the table's columns are the hidden size"
        );
        let blocks = table.cols / 32;
        for slab in &table.slabs {
            let kernel = kernel(slab.format);
            let params = [
                blocks,
                slab.first_output,
                slab.outputs,
                scale.to_bits(),
                0,
                0,
                0,
                0,
            ];
            let grid = [blocks.div_ceil(64), self.pass.rows, 1];
            let buffers = [&self.state, &slab.quants, &slab.scales, &out.buffer];
            self.recorder.dispatch(&kernel, params, &buffers, grid);
        }
    }
}
