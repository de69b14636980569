//! `attention`: split over fixed spans of positions, then reduced in ascending order.

use foretoken_core::{AttentionShape, MAX_PREFILL_ROWS};

use crate::gpu_ops::{GpuActivation, GpuKvCache, GpuOps};
use crate::ops::MAX_STEP_ROWS;
use crate::ops::rope_kv::kv_file;
use crate::recording::{Access, Kernel, constants, slots};
use crate::tier::Tier;

/// Positions in a span. Part of the exactness contract: a row's split depends on its own position alone.
pub(crate) const SPAN: u32 = 128;

const SPLIT: Kernel = Kernel::new(
    "ops/attention_split.wgsl",
    &[Access::Read, Access::Read, Access::Read, Access::Write],
);
const SPLIT_SUBGROUP: Kernel = Kernel {
    file: "ops/attention_split_subgroup.wgsl",
    ..SPLIT
};
const REDUCE: Kernel = Kernel::new("ops/attention_reduce.wgsl", &[Access::Read, Access::Write]);

/// Bytes of the partial results of the largest pass.
pub(crate) fn part_bytes(heads: u32, head_dim: u32, context: u32) -> u64 {
    let spans = u64::from(context.div_ceil(SPAN));
    MAX_PREFILL_ROWS as u64 * u64::from(heads) * spans * u64::from(head_dim / 4 + 1) * 16
}

/// Queries that share a key and value load: more would not stay in registers.
const MAX_QUERIES: u32 = 16;

/// Rows a workgroup takes: as many as the matmuls do, while their queries fit.
const fn rows_a_workgroup(rows: u32, gqa: u32) -> u32 {
    let mut c = rows;
    while c > 1 && c * gqa > MAX_QUERIES {
        c /= 2;
    }
    c
}

/// One kernel for any device.
fn split_kernel(head_dim4: u32, gqa: u32, c: u32, tier: Tier) -> Kernel {
    Kernel {
        slots: slots([("kv", kv_file(tier))]),
        constants: constants([
            MAX_STEP_ROWS,
            ("HEAD_DIM4", head_dim4),
            ("GQA", gqa),
            ("SPAN", SPAN),
            ("C", c),
        ]),
        f16: tier.f16,
        ..SPLIT
    }
}

/// One for devices whose subgroups are all of `lanes` lanes, which divide the head.
fn split_subgroup_kernel(head_dim4: u32, gqa: u32, c: u32, lanes: u32, tier: Tier) -> Kernel {
    Kernel {
        slots: slots([("kv", kv_file(tier))]),
        constants: constants([
            MAX_STEP_ROWS,
            ("LANES", lanes),
            ("PER_LANE", head_dim4 / lanes),
            ("GQA", gqa),
            ("SPAN", SPAN),
            ("C", c),
        ]),
        f16: tier.f16,
        lanes,
        ..SPLIT_SUBGROUP
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

/// The head sizes and GQA factors of the models we know of.
pub(crate) fn catalog(tier: Tier) -> Vec<Kernel> {
    let mut kernels = Vec::new();
    for head_dim4 in [4, 16, 20, 32] {
        kernels.push(reduce_kernel(head_dim4));
        for gqa in [1, 2, 3, 7] {
            for rows in [1, 2, 4] {
                let c = rows_a_workgroup(rows, gqa);
                kernels.push(split_kernel(head_dim4, gqa, c, tier));
                if tier.subgroups && head_dim4 % SUBGROUP_LANES == 0 {
                    kernels.push(split_subgroup_kernel(
                        head_dim4,
                        gqa,
                        c,
                        SUBGROUP_LANES,
                        tier,
                    ));
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
        let max_spans = kv.shape.context.div_ceil(SPAN);
        let head_dim4 = shape.head_dim / 4;
        let gqa = shape.heads / shape.kv_heads;
        let parts = self
            .attention_parts
            .clone()
            .expect("allocated with the KV cache");
        let rows = self.pass.rows;
        let c = rows_a_workgroup(self.rows_a_thread(rows), gqa);
        let report = &self.recorder.gpu.report;
        let lanes_fit = report.subgroup_size == (SUBGROUP_LANES, SUBGROUP_LANES)
            && head_dim4.is_multiple_of(SUBGROUP_LANES);
        let split = if self.tier().subgroups && lanes_fit {
            split_subgroup_kernel(head_dim4, gqa, c, SUBGROUP_LANES, self.tier())
        } else {
            split_kernel(head_dim4, gqa, c, self.tier())
        };
        let scale = shape.scale.to_bits();
        let params = [
            shape.heads,
            shape.kv_heads,
            kv.shape.context,
            max_spans,
            scale,
            0,
            0,
            0,
        ];
        let live_spans = self.pass.last_position / SPAN + 1;
        // A workgroup reads what the last of its rows attends to, once for the query heads of its KV head.
        let row_bytes = 2 * u64::from(shape.kv_heads * shape.head_dim) * self.kv_scalar_bytes();
        let read: u64 = self.pass.positions[..rows as usize]
            .chunks(c as usize)
            .map(|chunk| chunk.iter().max().map_or(0, |last| u64::from(last + 1)))
            .sum();
        self.recorder.counters.kv_bytes_read += read * row_bytes;
        let buffers = [&qkv.buffer, &kv.keys, &kv.values, &parts];
        self.recorder.dispatch(
            &split,
            params,
            &buffers,
            [live_spans, shape.kv_heads, rows.div_ceil(c)],
        );
        let reduce = reduce_kernel(head_dim4);
        let params = [shape.heads, max_spans, 0, 0, 0, 0, 0, 0];
        let grid = [(shape.heads * head_dim4).div_ceil(64), self.pass.rows, 1];
        self.recorder
            .dispatch(&reduce, params, &[&parts, &out.buffer], grid);
    }
}
