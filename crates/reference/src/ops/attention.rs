//! `attention`.

use foretoken_core::{AttentionShape, Row};

use crate::{dot::dot, kv_cache::CpuKvCache};

/// `out[i] = Σ_p softmax_p(scale · q_i·k_p) · v_p` over positions `0..=position of row i`, or the last `window` of them; `qkv` is
/// `[rows, (heads + 2·kv_heads) · head_dim]`, `out` `[rows, heads · head_dim]`.
pub(crate) fn attention(
    qkv: &[f32],
    rows: &[Row],
    kv: &CpuKvCache,
    shape: &AttentionShape,
    out: &mut [f32],
) {
    let (heads, kv_heads, head_dim) = (
        shape.heads as usize,
        shape.kv_heads as usize,
        shape.head_dim as usize,
    );
    assert!(
        kv.shape.kv_heads == shape.kv_heads
            && kv.shape.head_dim == shape.head_dim
            && kv_heads > 0
            && heads.is_multiple_of(kv_heads),
        "attention: {shape:?} over a KV cache of {:?}",
        kv.shape
    );
    let heads_per_kv = heads / kv_heads;
    let kv_len = kv.position_len();
    let (keys, values) = (kv.keys.borrow(), kv.values.borrow());
    let qkv = qkv.chunks_exact((heads + 2 * kv_heads) * head_dim);
    for ((qkv, row), out) in qkv.zip(rows).zip(out.chunks_exact_mut(heads * head_dim)) {
        let start = kv.offset(&Row {
            position: shape.first_position(row.position),
            ..*row
        });
        let end = kv.offset(row) + kv_len;
        for (head, out) in out.chunks_exact_mut(head_dim).enumerate() {
            let q = &qkv[head * head_dim..][..head_dim];
            let kv_head = head / heads_per_kv * head_dim..(head / heads_per_kv + 1) * head_dim;
            let scores: Vec<f32> = keys[start..end]
                .chunks_exact(kv_len)
                .map(|position| shape.scale * dot(q, &position[kv_head.clone()]))
                .collect();
            let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let weights: Vec<f32> = scores.iter().map(|score| (score - max).exp()).collect();
            let total: f32 = weights.iter().sum();
            out.fill(0.0);
            for (position, weight) in values[start..end].chunks_exact(kv_len).zip(&weights) {
                for (out, value) in out.iter_mut().zip(&position[kv_head.clone()]) {
                    *out += weight / total * value;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use foretoken_core::{AttentionShape, KvShape, RopeStyle, Row};

    use super::attention;
    use crate::testing::{kv_cache, noise};

    #[test]
    fn equals_f64_over_its_own_positions_only() {
        equals_f64(None);
        equals_f64(Some(2));
        equals_f64(Some(9));
    }

    fn equals_f64(window: Option<u32>) {
        let shape = AttentionShape {
            heads: 4,
            kv_heads: 2,
            head_dim: 8,
            scale: 0.7,
            rope: RopeStyle::Interleaved,
            window,
        };
        let kv = kv_cache(KvShape {
            sequences: 2,
            context: 6,
            heads: 2,
            kv_heads: 2,
            head_dim: 8,
            window: None,
        });
        *kv.keys.borrow_mut() = noise(3, 2 * 6 * 16);
        *kv.values.borrow_mut() = noise(4, 2 * 6 * 16);
        // What stands after position 3 of sequence 1 must not matter.
        let beyond = (6 + 4) * 16;
        kv.keys.borrow_mut()[beyond..].fill(f32::NAN);
        kv.values.borrow_mut()[beyond..].fill(f32::NAN);
        let rows = [3, 0].map(|position| Row {
            token: 0,
            position,
            sequence: 1,
        });
        let qkv = noise(5, 2 * 64);
        let mut out = vec![f32::NAN; 2 * 32];
        attention(&qkv, &rows, &kv, &shape, &mut out);

        let (keys, values) = (kv.keys.borrow(), kv.values.borrow());
        for (r, row) in rows.iter().enumerate() {
            for head in 0..4 {
                let at = |p: usize, d: usize| (6 + p) * 16 + head / 2 * 8 + d;
                let score = |p: usize| -> f64 {
                    (0..8)
                        .map(|d| f64::from(qkv[r * 64 + head * 8 + d]) * f64::from(keys[at(p, d)]))
                        .sum::<f64>()
                        * 0.7
                };
                let first = window.map_or(0, |window| (row.position + 1).saturating_sub(window));
                let weights: Vec<f64> = (0..=row.position as usize)
                    .map(|p| {
                        if p < first as usize {
                            0.0
                        } else {
                            score(p).exp()
                        }
                    })
                    .collect();
                let total: f64 = weights.iter().sum();
                for d in 0..8 {
                    let exact: f64 = weights
                        .iter()
                        .enumerate()
                        .map(|(p, w)| w / total * f64::from(values[at(p, d)]))
                        .sum();
                    let got = f64::from(out[r * 32 + head * 8 + d]);
                    assert!(
                        (got - exact).abs() < 1e-5,
                        "row {r}, head {head}, dimension {d}: {got} for {exact}"
                    );
                }
            }
        }
    }

    #[test]
    fn large_scores_do_not_overflow() {
        let shape = AttentionShape {
            heads: 1,
            kv_heads: 1,
            head_dim: 4,
            scale: 1.0,
            rope: RopeStyle::Halves,
            window: None,
        };
        let kv = kv_cache(KvShape {
            sequences: 1,
            context: 2,
            heads: 1,
            kv_heads: 1,
            head_dim: 4,
            window: None,
        });
        kv.keys
            .borrow_mut()
            .copy_from_slice(&[100.0, 0.0, 0.0, 0.0, 200.0, 0.0, 0.0, 0.0]);
        kv.values
            .borrow_mut()
            .copy_from_slice(&[1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let mut qkv = vec![0.0; 12];
        qkv[0] = 50.0;
        let mut out = [0.0; 4];
        attention(
            &qkv,
            &[Row {
                token: 0,
                position: 1,
                sequence: 0,
            }],
            &kv,
            &shape,
            &mut out,
        );
        assert_eq!(out, [2.0, 3.0, 4.0, 5.0]);
    }
}
