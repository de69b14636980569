//! `matmul`, `matmul_add`, `matmul_glu`: one kernel, swapped in its format, its way to the activations, how threads
//! share an output ([`MatmulShape`]) and its epilogue.
//!
//! The row count picks only how many rows a thread takes (C), never how a row is summed.

use std::collections::HashSet;

use foretoken_core::{Format, GluActivation, MatrixLayout, Phase, RowSet};

use crate::device::{BROADCAST_LANES, NARROW_LANES};
use crate::gpu_ops::{GpuActivation, GpuOps, GpuVector, row_set_index};
use crate::matmul_shape::MatmulShape;
use crate::matrix::{GpuMatrix, Slab};
use crate::ops::MAX_STEP_ROWS;
use crate::recording::{Access, Buffer, Kernel, UNIFORM_BYTES, constants, slots};
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

/// The bindings where activations come from a uniform buffer.
const UNIFORM: &[Access] = &[
    Access::Uniform,
    Access::Read,
    Access::Read,
    Access::Write,
    Access::Read,
];

/// How a kernel reads its activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activations {
    Direct,
    /// Out of a uniform buffer: the same sums, and so below.
    DirectUniform,
    Broadcast,
    BroadcastUniform,
}

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
    Gated(GluActivation),
    Glu(GluActivation),
}

impl Epilogue {
    const fn file(self) -> &'static str {
        match self {
            Epilogue::Store => "lib/epilogue_store.wgsl",
            Epilogue::Bias => "lib/epilogue_bias.wgsl",
            Epilogue::Add => "lib/epilogue_add.wgsl",
            Epilogue::Gated(_) => "lib/epilogue_gated.wgsl",
            Epilogue::Glu(_) => "lib/epilogue_glu.wgsl",
        }
    }

    /// What the slot `glu` holds.
    const fn glu_file(self) -> &'static str {
        match self {
            Epilogue::Gated(GluActivation::Silu) | Epilogue::Glu(GluActivation::Silu) => {
                "lib/glu_silu.wgsl"
            }
            Epilogue::Gated(GluActivation::GeluTanh) | Epilogue::Glu(GluActivation::GeluTanh) => {
                "lib/glu_gelu_tanh.wgsl"
            }
            Epilogue::Store | Epilogue::Bias | Epilogue::Add => "lib/glu_none.wgsl",
        }
    }

    /// Whether accumulators come in pairs, gate and up.
    const fn paired(self) -> bool {
        matches!(self, Epilogue::Glu(_))
    }
}

fn kernel(
    format: Format,
    epilogue: Epilogue,
    c: u32,
    shape: &MatmulShape,
    activations: Activations,
    lanes: u32,
) -> Kernel {
    let (file, arguments) = match activations {
        Activations::Direct => (
            "lib/activations_direct.wgsl",
            "lib/activations_direct_arguments.wgsl",
        ),
        Activations::DirectUniform => (
            "lib/activations_direct_uniform.wgsl",
            "lib/activations_direct_arguments.wgsl",
        ),
        Activations::Broadcast => (
            "lib/activations_broadcast.wgsl",
            "lib/activations_broadcast_arguments.wgsl",
        ),
        Activations::BroadcastUniform => (
            "lib/activations_uniform.wgsl",
            "lib/activations_broadcast_arguments.wgsl",
        ),
    };
    let (slice, combine) = if shape.split > 1 {
        ("lib/slice_split.wgsl", "lib/combine_split.wgsl")
    } else {
        ("lib/slice_one.wgsl", "lib/combine_none.wgsl")
    };
    Kernel {
        slots: slots([
            ("quant", quant_file(format)),
            ("activations", file),
            ("activations_arguments", arguments),
            ("slice", slice),
            ("combine", combine),
            ("epilogue", epilogue.file()),
            ("glu", epilogue.glu_file()),
        ]),
        constants: constants([
            ("R", shape.outputs),
            ("C", c),
            ("PAIR", if epilogue.paired() { 2 } else { 1 }),
            ("SPLIT", shape.split),
            ("WORKGROUP", shape.workgroup),
            MAX_STEP_ROWS,
            if shape.broadcast {
                ("LANES", lanes)
            } else {
                ("", 0)
            },
        ]),
        bindings: match activations {
            Activations::DirectUniform | Activations::BroadcastUniform => UNIFORM,
            Activations::Direct | Activations::Broadcast => KERNEL.bindings,
        },
        lanes: if shape.broadcast { lanes } else { 0 },
        ..KERNEL
    }
}

/// Outputs and rows of a tile, as `ops/matmul_tiled.wgsl` has them.
const TILE_SLOTS: u32 = 64;
const TILE_ROWS: u32 = 32;

fn tiled_kernel(format: Format, epilogue: Epilogue) -> Kernel {
    Kernel {
        file: "ops/matmul_tiled.wgsl",
        slots: slots([
            ("quant", quant_file(format)),
            ("epilogue", epilogue.file()),
            ("glu", epilogue.glu_file()),
        ]),
        constants: constants([
            ("R", 8),
            ("C", 4),
            ("PAIR", if epilogue.paired() { 2 } else { 1 }),
            MAX_STEP_ROWS,
        ]),
        ..KERNEL
    }
}

/// How kernels of a shape may read their activations, on a device whose subgroups hand them round among so many lanes. A uniform
/// buffer is for threads that all read the same: those that share an output do not. Four lanes are SwiftShader's, where it is no
/// faster (docs/decisions/0007).
fn ways(shape: &MatmulShape, lanes: u32) -> &'static [Activations] {
    match (shape.broadcast, shape.split, lanes) {
        (true, _, 8..) => &[Activations::Broadcast, Activations::BroadcastUniform],
        (true, ..) => &[Activations::Broadcast],
        (false, 1, _) => &[Activations::Direct, Activations::DirectUniform],
        (false, ..) => &[Activations::Direct],
    }
}

/// Rows of `cols` activations that a uniform binding holds, in whole chunks of `c`. Never an odd number, so that windows begin
/// where a device lets uniform bindings begin: rows are multiples of 128 bytes, those places of 256 at most.
fn uniform_rows(cols: u32, c: u32) -> u32 {
    let unit = c.max(2);
    (UNIFORM_BYTES / 4) as u32 / cols / unit * unit
}

const EPILOGUES: [Epilogue; 7] = [
    Epilogue::Store,
    Epilogue::Bias,
    Epilogue::Add,
    Epilogue::Gated(GluActivation::Silu),
    Epilogue::Glu(GluActivation::Silu),
    Epilogue::Gated(GluActivation::GeluTanh),
    Epilogue::Glu(GluActivation::GeluTanh),
];

/// Every variant of these shapes for so many lanes, each once.
fn of_shapes(formats: &[Format], shapes: &[MatmulShape], lanes: u32) -> Vec<Kernel> {
    let mut kernels = Vec::new();
    let mut seen = HashSet::new();
    for &format in formats {
        for epilogue in EPILOGUES {
            for shape in shapes {
                for c in [1, 2, 4, 8].into_iter().filter(|c| *c <= shape.most_rows) {
                    for &activations in ways(shape, lanes) {
                        let kernel = kernel(format, epilogue, c, shape, activations, lanes);
                        if seen.insert(kernel) {
                            kernels.push(kernel);
                        }
                    }
                }
            }
        }
    }
    kernels
}

/// The shapes of a tier that every device may take, by its class or by tuning.
fn common_shapes(tier: Tier) -> Vec<MatmulShape> {
    let mut shapes = MatmulShape::all(tier).to_vec();
    shapes.extend(MatmulShape::candidates(true, tier));
    shapes
}

/// Every variant that some device of this tier runs, but for [`hardware_catalog`].
pub(crate) fn catalog(formats: &[Format], tier: Tier) -> Vec<Kernel> {
    let mut kernels = of_shapes(formats, &common_shapes(tier), BROADCAST_LANES);
    if tier.subgroups {
        let narrow = MatmulShape::narrow_candidates(true);
        kernels.extend(of_shapes(formats, &narrow, NARROW_LANES));
    }
    for &format in formats {
        for epilogue in EPILOGUES {
            kernels.push(tiled_kernel(format, epilogue));
        }
    }
    kernels
}

/// The variants that only hardware runs, if its tuner takes them.
pub(crate) fn hardware_catalog(formats: &[Format], tier: Tier) -> Vec<Kernel> {
    let common: HashSet<Kernel> = of_shapes(formats, &common_shapes(tier), BROADCAST_LANES)
        .into_iter()
        .collect();
    let mut kernels = of_shapes(
        formats,
        &MatmulShape::candidates(false, tier),
        BROADCAST_LANES,
    );
    if tier.subgroups {
        let narrow = MatmulShape::narrow_candidates(false);
        kernels.extend(of_shapes(formats, &narrow, NARROW_LANES));
    }
    kernels.retain(|kernel| !common.contains(kernel));
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

    pub(crate) fn record_matmul_glu(
        &mut self,
        x: &GpuActivation,
        w: &GpuMatrix,
        activation: GluActivation,
        out: &GpuActivation,
    ) {
        assert_eq!(
            w.layout,
            MatrixLayout::GateUp,
            "matmul_glu: a gate-and-up matrix"
        );
        for slab in &w.slabs {
            let epilogue = if slab.paired {
                Epilogue::Glu(activation)
            } else {
                Epilogue::Store
            };
            self.slab(x, w, slab, None, epilogue, out);
        }
        for slab in &w.up_slabs {
            self.slab(x, w, slab, None, Epilogue::Gated(activation), out);
        }
    }

    /// Rows a thread takes in a pass. The prefill family, and the row family where it is padded, always take the most.
    pub(crate) fn rows_a_thread(&self, rows: u32) -> u32 {
        match self.pass.phase {
            Phase::Rows if !self.pad_rows => self.shape.rows_a_thread(rows),
            _ => self.shape.most_rows,
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
        let shape = self.shape;
        let pair = if slab.paired { 2 } else { 1 };
        let tiled =
            shape.tiled_prefill && self.pass.phase == Phase::Prefill && out.rows == RowSet::All;
        // A prompt goes through a uniform binding window by window; a pass to verify is one dispatch, come what may.
        let window = uniform_rows(w.cols, c);
        // Tiles read all rows themselves.
        let fits = rows <= window || self.pass.phase == Phase::Prefill;
        let lanes = self.recorder.gpu.report.broadcast_lanes();
        let (buffer, from_uniform) = match ways(&shape, lanes) {
            [buffer, uniform] => (*buffer, Some(*uniform)),
            ways => (ways[0], None),
        };
        // Of the software drivers without broadcasts lavapipe gains much by it and has f16; SwiftShader has none, and loses a little.
        let gains = shape.broadcast || self.tier().f16;
        let from_uniform = from_uniform.filter(|_| gains && !tiled && window > 0 && fits);
        let uniform = from_uniform.is_some();
        let activations = from_uniform.unwrap_or(buffer);
        let (kernel, workgroups, rows_a_chunk) = if tiled {
            let kernel = tiled_kernel(slab.format, epilogue);
            let workgroups = slab.outputs.div_ceil(TILE_SLOTS / pair);
            (kernel, workgroups, TILE_ROWS)
        } else {
            let kernel = kernel(slab.format, epilogue, c, &shape, activations, lanes);
            let groups = shape.workgroup / (8 * shape.split) * (shape.outputs / pair);
            (kernel, slab.groups().div_ceil(groups), c)
        };
        let y_groups = workgroups.min(65_535);
        let bias = bias
            .map_or(self.recorder.nothing(), |bias| &bias.buffer)
            .clone();
        let step = if uniform { window } else { rows.max(1) };
        for first_row in (0..rows).step_by(step as usize) {
            let chunks = step.min(rows - first_row).div_ceil(rows_a_chunk);
            let params = [
                w.cols / 32,
                slab.groups(),
                slab.outputs,
                slab.first_output,
                out.cols,
                row_set_index(out.rows),
                y_groups,
                first_row,
            ];
            let x = Buffer {
                offset: 4 * u64::from(w.cols) * u64::from(first_row),
                ..x.buffer.clone()
            };
            let buffers = [&x, &slab.quants, &slab.scales, &out.buffer, &bias];
            let grid = [chunks, y_groups, workgroups.div_ceil(y_groups)];
            self.recorder.counters.weight_bytes_read += slab.bytes * u64::from(chunks);
            self.recorder.dispatch(&kernel, params, &buffers, grid);
        }
    }
}
