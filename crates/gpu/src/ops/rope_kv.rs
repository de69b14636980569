//! `rope_kv`: one thread a pair of dimensions of q, k and v.

use foretoken_core::{AttentionShape, RopeStyle};

use crate::gpu_ops::{GpuActivation, GpuKvCache, GpuOps, GpuRopeTable};
use crate::ops::MAX_STEP_ROWS;
use crate::recording::{Access, Kernel, constants, slots};
use crate::tier::Tier;

const KERNEL: Kernel = Kernel {
    constants: constants([MAX_STEP_ROWS]),
    ..Kernel::new(
        "ops/rope_kv.wgsl",
        &[Access::Write, Access::Read, Access::Write, Access::Write],
    )
};

/// How keys and values are stored.
pub(crate) const fn kv_file(tier: Tier) -> &'static str {
    if tier.f16 {
        "lib/kv_f16.wgsl"
    } else {
        "lib/kv_f32.wgsl"
    }
}

fn kernel(style: RopeStyle, tier: Tier) -> Kernel {
    let style = match style {
        RopeStyle::Interleaved => "lib/rope_interleaved.wgsl",
        RopeStyle::Halves => "lib/rope_halves.wgsl",
    };
    Kernel {
        slots: slots([("kv", kv_file(tier)), ("rope", style)]),
        f16: tier.f16,
        ..KERNEL
    }
}

pub(crate) fn catalog(tier: Tier) -> Vec<Kernel> {
    vec![
        kernel(RopeStyle::Interleaved, tier),
        kernel(RopeStyle::Halves, tier),
    ]
}

impl GpuOps {
    pub(crate) fn record_rope_kv(
        &mut self,
        qkv: &GpuActivation,
        rope: &GpuRopeTable,
        kv: &GpuKvCache,
        shape: &AttentionShape,
    ) {
        let half = shape.head_dim / 2;
        let all_heads = shape.heads + 2 * shape.kv_heads;
        assert_eq!(
            qkv.cols,
            all_heads * shape.head_dim,
            "rope_kv: q, k and v heads"
        );
        assert_eq!(rope.pairs, half, "rope_kv: a frequency a pair");
        assert_eq!(
            (kv.shape.kv_heads, kv.shape.head_dim),
            (shape.kv_heads, shape.head_dim),
            "rope_kv: cache"
        );
        assert!(
            self.pass.last_position < kv.shape.context,
            "rope_kv: position beyond the cache"
        );
        let kernel = kernel(shape.rope, self.tier());
        let params = [
            shape.heads,
            shape.kv_heads,
            half,
            kv.shape.context,
            0,
            0,
            0,
            0,
        ];
        let grid = [(all_heads * half).div_ceil(64), self.pass.rows, 1];
        let buffers = [&qkv.buffer, &rope.buffer, &kv.keys, &kv.values];
        self.recorder.dispatch(&kernel, params, &buffers, grid);
    }
}
