//! `attention`: split over fixed spans of positions, then reduced in ascending order.

use foretoken_core::{AttentionShape, MAX_PREFILL_ROWS};

use crate::gpu_ops::{GpuActivation, GpuKvCache, GpuOps};
use crate::ops::MAX_STEP_ROWS;
use crate::ops::rope_kv::kv_file;
use crate::recording::{Access, Kernel, NO_CONSTANT, NO_SLOT};
use crate::tier::Tier;

/// Positions in a span. Part of the exactness contract: a row's split depends on its own position alone.
pub(crate) const SPAN: u32 = 128;

const SPLIT: Kernel = Kernel::new(
    "ops/attention_split.wgsl",
    &[Access::Read, Access::Read, Access::Read, Access::Write],
);
const REDUCE: Kernel = Kernel::new("ops/attention_reduce.wgsl", &[Access::Read, Access::Write]);

/// Bytes of the partial results of the largest pass.
pub(crate) fn part_bytes(heads: u32, head_dim: u32, context: u32) -> u64 {
    let spans = u64::from(context.div_ceil(SPAN));
    MAX_PREFILL_ROWS as u64 * u64::from(heads) * spans * u64::from(head_dim / 4 + 1) * 16
}

fn split_kernel(head_dim4: u32, gqa: u32, tier: Tier) -> Kernel {
    Kernel {
        slots: [("kv", kv_file(tier)), NO_SLOT, NO_SLOT, NO_SLOT],
        constants: [
            MAX_STEP_ROWS,
            ("HEAD_DIM4", head_dim4),
            ("GQA", gqa),
            ("SPAN", SPAN),
            ("SCORES", SPAN * gqa),
            ("WORKGROUP", 64),
        ],
        f16: tier.f16,
        ..SPLIT
    }
}

fn reduce_kernel(head_dim4: u32) -> Kernel {
    Kernel {
        constants: [
            MAX_STEP_ROWS,
            ("HEAD_DIM4", head_dim4),
            ("SPAN", SPAN),
            NO_CONSTANT,
            NO_CONSTANT,
            NO_CONSTANT,
        ],
        ..REDUCE
    }
}

/// The head sizes and GQA factors of the models we know of.
pub(crate) fn catalog(tier: Tier) -> Vec<Kernel> {
    let mut kernels = Vec::new();
    for head_dim4 in [4, 16, 20, 24, 32, 64] {
        kernels.push(reduce_kernel(head_dim4));
        kernels.extend([1, 2, 3, 4, 6, 7, 8].map(|gqa| split_kernel(head_dim4, gqa, tier)));
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
        assert_eq!(shape.head_dim % 4, 0, "attention: heads are whole vec4s");
        let max_spans = kv.shape.context.div_ceil(SPAN);
        let head_dim4 = shape.head_dim / 4;
        let gqa = shape.heads / shape.kv_heads;
        let bytes = part_bytes(shape.heads, shape.head_dim, kv.shape.context);
        let parts = match &self.attention_parts {
            Some(parts) if parts.raw.size() >= bytes => parts.clone(),
            _ => {
                let parts = self
                    .recorder
                    .buffer("attention partials", bytes)
                    .expect("attention partials are smaller than the KV cache they come from");
                self.attention_parts = Some(parts.clone());
                parts
            }
        };
        let split = split_kernel(head_dim4, gqa, self.tier());
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
        let buffers = [&qkv.buffer, &kv.keys, &kv.values, &parts];
        self.recorder.dispatch(
            &split,
            params,
            &buffers,
            [live_spans, shape.kv_heads, self.pass.rows],
        );
        let reduce = reduce_kernel(head_dim4);
        let params = [shape.heads, max_spans, 0, 0, 0, 0, 0, 0];
        let grid = [(shape.heads * head_dim4).div_ceil(64), self.pass.rows, 1];
        self.recorder
            .dispatch(&reduce, params, &[&parts, &out.buffer], grid);
    }
}
