//! `attention`: q and k rotated, k and v written to the cache, then split over fixed spans of positions and reduced in ascending
//! order; or all of it in one dispatch, where that is shorter.

use foretoken_core::{
    ATTENTION_SPAN, AttentionShape, KvShape, MAX_PREFILL_ROWS, OpsError, RopeStyle,
};

use crate::gpu_ops::{GpuActivation, GpuKvCache, GpuOps, GpuRopeTable};
use crate::ops::MAX_STEP_ROWS;
use crate::recording::{Access, Kernel, constants, slots};
use crate::tier::Tier;

/// Positions in a span. Part of the exactness contract: a row's split depends on its own position alone.
const SPAN: u32 = ATTENTION_SPAN;

const ROPE: Kernel = Kernel::new(
    "ops/attention_rope.wgsl",
    &[Access::Write, Access::Read, Access::Write, Access::Write],
);
const SPLIT: Kernel = Kernel::new(
    "ops/attention_split.wgsl",
    &[Access::Read, Access::Read, Access::Read, Access::Write],
);
const REDUCE: Kernel = Kernel::new("ops/attention_reduce.wgsl", &[Access::Read, Access::Write]);
const WHOLE: Kernel = Kernel::new(
    "ops/attention_whole.wgsl",
    &[
        Access::Write,
        Access::Write,
        Access::Write,
        Access::Write,
        Access::Read,
        Access::Write,
    ],
);

/// How keys and values are stored.
const fn kv_file(tier: Tier) -> &'static str {
    if tier.f16 {
        "lib/kv_f16.wgsl"
    } else {
        "lib/kv_f32.wgsl"
    }
}

const fn rope_file(style: RopeStyle) -> &'static str {
    match style {
        RopeStyle::Interleaved => "lib/rope_interleaved.wgsl",
        RopeStyle::Halves => "lib/rope_halves.wgsl",
    }
}

/// Bytes of the partial results of the largest pass.
pub(crate) fn part_bytes(heads: u32, head_dim: u32, context: u32) -> u64 {
    let spans = u64::from(context.div_ceil(SPAN));
    MAX_PREFILL_ROWS as u64 * u64::from(heads) * spans * u64::from(head_dim / 4 + 1) * 16
}

/// Queries that share a key and value load: more would not stay in registers.
const MAX_QUERIES: u32 = 16;
/// Words of workgroup memory that every device has.
const SCRATCH_WORDS: u32 = 16 * 1024 / 4;

/// Queries for which `lib/attention_span.wgsl` finds room in workgroup memory: what it keeps of one.
const fn queries_that_fit(head_dim4: u32) -> u32 {
    let columns = 4 * head_dim4 + 1;
    let longest = if columns > SPAN { columns } else { SPAN };
    SCRATCH_WORDS / (longest + 1)
}

/// Refuses more query heads for a key head than the kernels take.
pub(crate) fn check_heads(shape: &KvShape) -> Result<(), OpsError> {
    let most = queries_that_fit(shape.head_dim / 4);
    // A workgroup each, in one dimension of a grid.
    let all = u64::from(shape.heads) + u64::from(shape.kv_heads);
    if all > 65_535 {
        return Err(OpsError::Unavailable {
            reason: format!(
                "attention takes at most 65,535 heads of queries and keys; the model has {all}"
            ),
        });
    }
    if shape.heads / shape.kv_heads <= most {
        return Ok(());
    }
    Err(OpsError::Unavailable {
        reason: format!(
            "attention takes at most {most} query heads of {} dimensions for a key head; the model has {} for {}",
            shape.head_dim, shape.heads, shape.kv_heads
        ),
    })
}

/// Rows a workgroup takes: as many as the matmuls do, while their queries fit.
const fn rows_a_workgroup(rows: u32, gqa: u32, head_dim4: u32) -> u32 {
    let fit = queries_that_fit(head_dim4);
    let most = if fit < MAX_QUERIES { fit } else { MAX_QUERIES };
    let mut c = rows;
    while c > 1 && c * gqa > most {
        c /= 2;
    }
    c
}

/// How the threads of a workgroup share a span.
#[derive(Debug, Clone, Copy)]
struct Span {
    head_dim4: u32,
    gqa: u32,
    /// Rows.
    c: u32,
    /// One subgroup of so many lanes, where all the device's have as many and they divide the head; absent: any device's way.
    lanes: Option<u32>,
}

impl Span {
    /// `kernel` over such spans.
    fn kernel(self, kernel: Kernel, rope: Option<RopeStyle>, tier: Tier) -> Kernel {
        let (file, arguments) = match self.lanes {
            Some(_) => (
                "lib/attention_span_subgroup.wgsl",
                "lib/attention_span_subgroup_arguments.wgsl",
            ),
            None => (
                "lib/attention_span.wgsl",
                "lib/attention_span_arguments.wgsl",
            ),
        };
        let slots = match rope {
            Some(style) => slots([
                ("span", file),
                ("span_arguments", arguments),
                ("kv", kv_file(tier)),
                ("rope", rope_file(style)),
            ]),
            None => slots([
                ("span", file),
                ("span_arguments", arguments),
                ("kv", kv_file(tier)),
            ]),
        };
        let (gqa, c) = (("GQA", self.gqa), ("C", self.c));
        let constants = match self.lanes {
            Some(lanes) => constants([
                MAX_STEP_ROWS,
                ("LANES", lanes),
                ("PER_LANE", self.head_dim4 / lanes),
                gqa,
                ("SPAN", SPAN),
                c,
            ]),
            None => constants([
                MAX_STEP_ROWS,
                ("HEAD_DIM4", self.head_dim4),
                gqa,
                ("SPAN", SPAN),
                c,
            ]),
        };
        Kernel {
            slots,
            constants,
            f16: tier.f16,
            lanes: self.lanes.unwrap_or(0),
            ..kernel
        }
    }
}

fn rope_kernel(half: u32, style: RopeStyle, tier: Tier) -> Kernel {
    Kernel {
        constants: constants([MAX_STEP_ROWS, ("HALF", half)]),
        slots: slots([("kv", kv_file(tier)), ("rope", rope_file(style))]),
        f16: tier.f16,
        ..ROPE
    }
}

fn reduce_kernel(head_dim4: u32) -> Kernel {
    Kernel {
        constants: constants([MAX_STEP_ROWS, ("HEAD_DIM4", head_dim4), ("SPAN", SPAN)]),
        ..REDUCE
    }
}

/// The subgroups of the software devices that take the subgroup kernel.
const SUBGROUP_LANES: u32 = 8;

/// Spans times chunks of rows that a workgroup takes one after another in one dispatch, at most: there are only as many workgroups as
/// KV heads, and what that loses must stay below two dispatches.
const fn whole_spans(software: bool) -> u32 {
    if software { 4 } else { 1 }
}

/// The head sizes and GQA factors of the models we know of.
pub(crate) fn catalog(tier: Tier) -> Vec<Kernel> {
    let styles = [RopeStyle::Interleaved, RopeStyle::Halves];
    let mut kernels = Vec::new();
    // The widest heads too, with few factors: what they need of workgroup memory is what may fail.
    let heads: [(u32, &[u32]); 5] = [
        (4, &[1, 2, 3, 7]),
        (16, &[1, 2, 3, 7]),
        (20, &[1, 2, 3, 7]),
        (32, &[1, 2, 3, 7]),
        (64, &[4]),
    ];
    for (head_dim4, factors) in heads {
        kernels.extend(styles.map(|style| rope_kernel(2 * head_dim4, style, tier)));
        kernels.push(reduce_kernel(head_dim4));
        for &gqa in factors {
            let mut taken = [1, 2, 4, 8]
                .map(|rows| rows_a_workgroup(rows, gqa, head_dim4))
                .to_vec();
            taken.dedup();
            for c in taken {
                let fits = tier.subgroups && head_dim4 % SUBGROUP_LANES == 0;
                let subgroup = fits.then_some(Some(SUBGROUP_LANES));
                for lanes in [None].into_iter().chain(subgroup) {
                    let span = Span {
                        head_dim4,
                        gqa,
                        c,
                        lanes,
                    };
                    kernels.push(span.kernel(SPLIT, None, tier));
                    for style in styles {
                        kernels.push(span.kernel(WHOLE, Some(style), tier));
                    }
                }
            }
        }
    }
    kernels
}

impl GpuOps {
    pub(crate) fn record_attention(
        &mut self,
        qkv: &GpuActivation,
        rope: &GpuRopeTable,
        kv: &GpuKvCache,
        shape: &AttentionShape,
        out: &GpuActivation,
    ) {
        assert_eq!(
            out.cols,
            shape.heads * shape.head_dim,
            "attention: output columns"
        );
        assert!(
            shape.head_dim.is_multiple_of(4) && shape.head_dim <= 256,
            "attention: heads are whole vec4s, at most 64"
        );
        let half = shape.head_dim / 2;
        let all_heads = shape.heads + 2 * shape.kv_heads;
        assert_eq!(
            qkv.cols,
            all_heads * shape.head_dim,
            "attention: q, k and v heads"
        );
        assert_eq!(rope.pairs, half, "attention: a frequency a pair");
        assert_eq!(
            (kv.shape.kv_heads, kv.shape.head_dim),
            (shape.kv_heads, shape.head_dim),
            "attention: cache"
        );
        assert!(
            self.pass.last_position < kv.shape.context,
            "attention: position beyond the cache"
        );
        assert_eq!(
            kv.shape.window, shape.window,
            "attention: the cache's window"
        );
        let capacity = kv.shape.capacity();
        let max_spans = kv.shape.context.div_ceil(SPAN);
        let head_dim4 = shape.head_dim / 4;
        let gqa = shape.heads / shape.kv_heads;
        let parts = self
            .attention_parts
            .clone()
            .expect("allocated with the KV cache");
        let rows = self.pass.rows;
        let c = rows_a_workgroup(self.rows_a_thread(rows), gqa, head_dim4);
        let report = &self.recorder.gpu.report;
        let software = report.software;
        let lanes_fit = report.subgroup_size == (SUBGROUP_LANES, SUBGROUP_LANES)
            && head_dim4.is_multiple_of(SUBGROUP_LANES);
        let tier = self.tier();
        let span = Span {
            head_dim4,
            gqa,
            c,
            lanes: (tier.subgroups && lanes_fit).then_some(SUBGROUP_LANES),
        };
        // A workgroup reads what the last of its rows attends to, once for the query heads of its KV head.
        let row_bytes = 2 * u64::from(shape.kv_heads * shape.head_dim) * self.kv_scalar_bytes();
        let read: u64 = self.pass.positions[..rows as usize]
            .chunks(c as usize)
            .filter_map(|chunk| {
                let first = shape.first_position(*chunk.iter().min()?);
                Some(u64::from(*chunk.iter().max()? + 1 - first))
            })
            .sum();
        let pad_rows = self.pad_rows;
        let recorder = &mut self.recorder;
        recorder.counters.kv_bytes_read += read * row_bytes;

        let scale = shape.scale.to_bits();
        let (heads, kv_heads) = (shape.heads, shape.kv_heads);
        let window = shape.window.unwrap_or(u32::MAX);
        let params = [heads, kv_heads, capacity, max_spans, scale, window, 0, 0];
        let (keys, values) = (&kv.keys, &kv.values);
        // What the rows of a pass attend to is a window and the rows at most, wherever it lies.
        let reach = window.saturating_add(MAX_PREFILL_ROWS as u32);
        let live_spans = (self.pass.last_position / SPAN + 1).min(reach.div_ceil(SPAN) + 1);
        let chunks = rows.div_ceil(c);
        // Rotation there takes pairs of vec4s. Padded passes all go one way.
        let whole = live_spans * chunks <= whole_spans(software)
            && head_dim4.is_multiple_of(2)
            && !pad_rows;
        if whole {
            let kernel = span.kernel(WHOLE, Some(shape.rope), tier);
            let buffers = [&qkv.buffer, keys, values, &parts, &rope.buffer, &out.buffer];
            recorder.dispatch(&kernel, params, &buffers, [kv_heads, 1, 1]);
            return;
        }
        recorder.dispatch(
            &rope_kernel(half, shape.rope, tier),
            [heads, kv_heads, capacity, 0, 0, 0, 0, 0],
            &[&qkv.buffer, &rope.buffer, keys, values],
            [(all_heads * half).div_ceil(64), rows, 1],
        );
        recorder.dispatch(
            &span.kernel(SPLIT, None, tier),
            params,
            &[&qkv.buffer, keys, values, &parts],
            [live_spans, kv_heads, chunks],
        );
        recorder.dispatch(
            &reduce_kernel(head_dim4),
            [heads, max_spans, window, 0, 0, 0, 0, 0],
            &[&parts, &out.buffer],
            [(heads * head_dim4).div_ceil(64), rows, 1],
        );
    }
}
