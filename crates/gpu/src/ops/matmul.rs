//! `matmul`, `matmul_add`, `matmul_swiglu`: one kernel, swapped in its format, its way to the activations and its
//! epilogue.
//!
//! The row count picks only how many rows a thread takes (C = 1, 2 or 4, chunks of four above), never how a row is
//! summed. R, the outputs a thread computes, is bit-neutral.

use foretoken_core::{Format, MatrixLayout, Phase};

use crate::gpu_ops::{GpuActivation, GpuOps, GpuVector, row_set_index};
use crate::matrix::{GpuMatrix, Slab};
use crate::ops::MAX_STEP_ROWS;
use crate::recording::{Access, Kernel};
use crate::shaders;
use crate::tier::Tier;

const KERNEL: Kernel = Kernel::new(
    "ops/matmul.wgsl",
    &[
        Access::Read,
        Access::Read,
        Access::Read,
        Access::Write,
        Access::Read,
    ],
);

/// `shaders/quant/<format>.wgsl`.
pub(crate) fn quant_file(format: Format) -> &'static str {
    let path = format!("quant/{}.wgsl", format.name());
    shaders::find(&path)
        .unwrap_or_else(|| panic!("format {} has no {path}", format.name()))
        .0
}

/// What becomes of an accumulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Epilogue {
    Store,
    Bias,
    Add,
    Gated,
    SwiGlu,
}

impl Epilogue {
    const fn file(self) -> &'static str {
        match self {
            Epilogue::Store => "lib/epilogue_store.wgsl",
            Epilogue::Bias => "lib/epilogue_bias.wgsl",
            Epilogue::Add => "lib/epilogue_add.wgsl",
            Epilogue::Gated => "lib/epilogue_gated.wgsl",
            Epilogue::SwiGlu => "lib/epilogue_swiglu.wgsl",
        }
    }
}

fn kernel(
    format: Format,
    epilogue: Epilogue,
    paired: bool,
    (r, c): (u32, u32),
    workgroup: u32,
    subgroups: bool,
) -> Kernel {
    let (activations, arguments) = if subgroups {
        (
            "lib/activations_broadcast.wgsl",
            "lib/activations_broadcast_arguments.wgsl",
        )
    } else {
        (
            "lib/activations_direct.wgsl",
            "lib/activations_direct_arguments.wgsl",
        )
    };
    Kernel {
        slots: [
            ("quant", quant_file(format)),
            ("activations", activations),
            ("activations_arguments", arguments),
            ("epilogue", epilogue.file()),
        ],
        constants: [
            ("R", r),
            ("C", c),
            ("PAIR", if paired { 2 } else { 1 }),
            ("PAIRS", r / 2),
            ("WORKGROUP", workgroup),
            MAX_STEP_ROWS,
        ],
        subgroups,
        ..KERNEL
    }
}

/// Outputs a thread computes, of an unpaired slab: software devices decode weights slowly and have registers to spare;
/// hardware fills its lanes with outputs first.
const fn outputs_a_thread(software: bool) -> u32 {
    if software { 4 } else { 2 }
}

/// The most rows a thread carries. Eight pay where decoding weights costs most, on a software device that hands
/// activations round a subgroup (8 rows cost 2.2 passes of one there, 2.5 in two chunks of four); elsewhere they spill.
const fn most_rows_a_thread(software: bool, tier: Tier) -> u32 {
    if software && tier.subgroups { 8 } else { 4 }
}

/// Every variant that some device of this tier runs.
pub(crate) fn catalog(formats: &[Format], tier: Tier) -> Vec<Kernel> {
    let epilogues = [
        Epilogue::Store,
        Epilogue::Bias,
        Epilogue::Add,
        Epilogue::Gated,
        Epilogue::SwiGlu,
    ];
    let mut kernels = Vec::new();
    for &format in formats {
        for epilogue in epilogues {
            for (software, workgroup) in [(true, 8), (false, 64)] {
                for c in [1, 2, 4, 8] {
                    if c > most_rows_a_thread(software, tier) {
                        continue;
                    }
                    let r = outputs_a_thread(software);
                    let paired = epilogue == Epilogue::SwiGlu;
                    kernels.push(kernel(
                        format,
                        epilogue,
                        paired,
                        (r, c),
                        workgroup,
                        tier.subgroups,
                    ));
                }
            }
        }
    }
    kernels
}

impl GpuOps {
    pub(crate) fn record_matmul(
        &mut self,
        x: &GpuActivation,
        w: &GpuMatrix,
        bias: Option<&GpuVector>,
        out: &GpuActivation,
    ) {
        assert_eq!(w.layout, MatrixLayout::Stacked, "matmul: a stacked matrix");
        assert!(
            bias.is_none_or(|bias| bias.len == w.outputs),
            "matmul: a bias an output"
        );
        let epilogue = if bias.is_some() {
            Epilogue::Bias
        } else {
            Epilogue::Store
        };
        for slab in &w.slabs {
            self.slab(x, w, slab, bias, epilogue, out);
        }
    }

    pub(crate) fn record_matmul_add(
        &mut self,
        x: &GpuActivation,
        w: &GpuMatrix,
        out: &GpuActivation,
    ) {
        assert_eq!(
            w.layout,
            MatrixLayout::Stacked,
            "matmul_add: a stacked matrix"
        );
        for slab in &w.slabs {
            self.slab(x, w, slab, None, Epilogue::Add, out);
        }
    }

    pub(crate) fn record_matmul_swiglu(
        &mut self,
        x: &GpuActivation,
        w: &GpuMatrix,
        out: &GpuActivation,
    ) {
        assert_eq!(
            w.layout,
            MatrixLayout::GateUp,
            "matmul_swiglu: a gate-and-up matrix"
        );
        for slab in &w.slabs {
            let epilogue = if slab.paired {
                Epilogue::SwiGlu
            } else {
                Epilogue::Store
            };
            self.slab(x, w, slab, None, epilogue, out);
        }
        for slab in &w.up_slabs {
            self.slab(x, w, slab, None, Epilogue::Gated, out);
        }
    }

    /// Rows a thread takes in a pass: as few as hold them all, up to what the device keeps in registers; the prefill
    /// family, and the row family where it is padded, always take the most.
    pub(crate) fn rows_a_thread(&self, rows: u32) -> u32 {
        let most = most_rows_a_thread(self.recorder.gpu.report.software, self.tier());
        match (self.pass.phase, rows) {
            (Phase::Prefill, _) => most,
            (Phase::Rows, _) if self.pad_rows => most,
            (Phase::Rows, 1) => 1,
            (Phase::Rows, 2) => 2,
            (Phase::Rows, 3 | 4) => 4,
            (Phase::Rows, _) => most,
        }
    }

    fn workgroup(&self) -> u32 {
        let (smallest, _) = self.recorder.gpu.report.subgroup_size;
        match (self.recorder.gpu.report.software, self.tier().subgroups) {
            (true, true) => smallest,
            (true, false) => 8,
            (false, _) => 64,
        }
    }

    fn slab(
        &mut self,
        x: &GpuActivation,
        w: &GpuMatrix,
        slab: &Slab,
        bias: Option<&GpuVector>,
        epilogue: Epilogue,
        out: &GpuActivation,
    ) {
        assert_eq!(
            x.cols, w.cols,
            "matmul: the input's columns are the matrix's"
        );
        assert_eq!(
            w.outputs, out.cols,
            "matmul: the output's columns are the matrix's rows"
        );
        assert_eq!(
            x.rows, out.rows,
            "matmul: input and output hold the same rows"
        );
        let rows = self.pass.rows_of(out.rows);
        let c = self.rows_a_thread(rows);
        let r = outputs_a_thread(self.recorder.gpu.report.software);
        let workgroup = self.workgroup();
        let pair = if slab.paired { 2 } else { 1 };
        let kernel = kernel(
            slab.format,
            epilogue,
            slab.paired,
            (r, c),
            workgroup,
            self.tier().subgroups,
        );
        let workgroups = slab.groups().div_ceil(workgroup / 8 * (r / pair));
        let y_groups = workgroups.min(65_535);
        let params = [
            w.cols / 32,
            slab.groups(),
            slab.outputs,
            slab.first_output,
            out.cols,
            row_set_index(out.rows),
            y_groups,
            0,
        ];
        let chunks = rows.div_ceil(c);
        let bias = bias
            .map_or(self.recorder.nothing(), |bias| &bias.buffer)
            .clone();
        let buffers = [&x.buffer, &slab.quants, &slab.scales, &out.buffer, &bias];
        let grid = [chunks, y_groups, workgroups.div_ceil(y_groups)];
        self.recorder.counters.weight_bytes_read += slab.bytes * u64::from(chunks);
        self.recorder.dispatch(&kernel, params, &buffers, grid);
    }
}
