//! `qk_norm`: the norm of every head of q and k.

use foretoken_core::AttentionShape;

use super::rms_norm::rms_norm;

/// Normalises the heads of q and k of `qkv`, `[rows, (heads + 2·kv_heads) · head_dim]`, in place; `weight` is `[2, head_dim]`, q's
/// and k's.
pub(crate) fn qk_norm(qkv: &mut [f32], weight: &[f32], eps: f32, shape: &AttentionShape) {
    let (heads, kv_heads, head_dim) = (
        shape.heads as usize,
        shape.kv_heads as usize,
        shape.head_dim as usize,
    );
    let (q_weight, k_weight) = weight.split_at(head_dim);
    for row in qkv.chunks_exact_mut((heads + 2 * kv_heads) * head_dim) {
        let (q, rest) = row.split_at_mut(heads * head_dim);
        let k = &mut rest[..kv_heads * head_dim];
        for (heads, weight) in [(q, q_weight), (k, k_weight)] {
            let x = heads.to_vec();
            rms_norm(&x, weight, eps, heads);
        }
    }
}

#[cfg(test)]
mod tests {
    use foretoken_core::{AttentionShape, RopeStyle};

    use super::qk_norm;

    #[test]
    fn hand_values() {
        // Two query heads and a key head of width 4, as (3, 4, 0, 0): mean(x²) = 25 / 4; with eps 0 the divisor is 2.5.
        let shape = AttentionShape {
            heads: 2,
            kv_heads: 1,
            head_dim: 4,
            scale: 1.0,
            rope: RopeStyle::Halves,
            window: None,
        };
        let head = [3.0, 4.0, 0.0, 0.0];
        let mut qkv = [head, head.map(|x| 2.0 * x), head, head].concat();
        qk_norm(
            &mut qkv,
            &[1.0, 1.0, 1.0, 1.0, 10.0, 5.0, 1.0, 1.0],
            0.0,
            &shape,
        );
        let expected = [
            [1.2, 1.6, 0.0, 0.0],
            [1.2, 1.6, 0.0, 0.0],
            [12.0, 8.0, 0.0, 0.0],
            [3.0, 4.0, 0.0, 0.0],
        ];
        for (got, expected) in qkv.iter().zip(expected.as_flattened()) {
            assert!((got - expected).abs() < 1e-6, "{qkv:?}");
        }
    }
}
