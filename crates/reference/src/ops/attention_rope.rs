//! `attention_rope`: rotary positions, and the write to the KV cache.

use foretoken_core::{AttentionShape, RopeStyle, Row};

use crate::{kv_cache::CpuKvCache, rope_table::CpuRopeTable};

/// Rotates q and k of `qkv`, `[rows, (heads + 2·kv_heads) · head_dim]`, in place, and writes k and v to the
/// cache at each row's position.
pub(crate) fn attention_rope(
    qkv: &mut [f32],
    rows: &[Row],
    rope: &CpuRopeTable,
    kv: &CpuKvCache,
    shape: &AttentionShape,
) {
    let (heads, kv_heads, head_dim) = (
        shape.heads as usize,
        shape.kv_heads as usize,
        shape.head_dim as usize,
    );
    assert!(
        kv.shape.kv_heads == shape.kv_heads && kv.shape.head_dim == shape.head_dim,
        "attention_rope: {shape:?} over a KV cache of {:?}",
        kv.shape
    );
    assert!(
        2 * rope.pairs <= head_dim,
        "attention_rope: {} pairs in a head of {head_dim}",
        rope.pairs
    );
    let kv_len = kv.position_len();
    let (mut keys, mut values) = (kv.keys.borrow_mut(), kv.values.borrow_mut());
    for (qkv, row) in qkv
        .chunks_exact_mut((heads + 2 * kv_heads) * head_dim)
        .zip(rows)
    {
        let (cos, sin) = rope.at(row.position as usize);
        let (qk, v) = qkv.split_at_mut((heads + kv_heads) * head_dim);
        for head in qk.chunks_exact_mut(head_dim) {
            rotate(head, cos, sin, shape.rope);
        }
        let at = kv.offset(row);
        keys[at..at + kv_len].copy_from_slice(&qk[heads * head_dim..]);
        values[at..at + kv_len].copy_from_slice(v);
    }
}

/// Turns each pair of one head by its angle; dimensions beyond the pairs stay.
fn rotate(head: &mut [f32], cos: &[f32], sin: &[f32], style: RopeStyle) {
    let pairs = cos.len();
    for pair in 0..pairs {
        let (a, b) = match style {
            RopeStyle::Interleaved => (2 * pair, 2 * pair + 1),
            RopeStyle::Halves => (pair, pair + pairs),
        };
        let (x, y) = (head[a], head[b]);
        head[a] = x * cos[pair] - y * sin[pair];
        head[b] = x * sin[pair] + y * cos[pair];
    }
}

#[cfg(test)]
mod tests {
    use foretoken_core::{AttentionShape, KvShape, RopeStyle, RopeTableSpec, Row};

    use super::attention_rope;
    use crate::{rope_table::CpuRopeTable, testing::kv_cache};

    fn run(rope: RopeStyle) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
        // Pair 0 turns a quarter a position, pair 1 not at all.
        let spec = RopeTableSpec {
            inv_freq: vec![std::f64::consts::FRAC_PI_2, 0.0],
            magnitude: 1.0,
            positions: 4,
        };
        let kv = kv_cache(KvShape {
            sequences: 2,
            context: 4,
            heads: 1,
            kv_heads: 1,
            head_dim: 4,
            window: None,
        });
        let shape = AttentionShape {
            heads: 1,
            kv_heads: 1,
            head_dim: 4,
            scale: 1.0,
            rope,
            window: None,
        };
        let mut qkv: Vec<f32> = (1..=12).map(|i| i as f32).collect();
        let rows = [Row {
            token: 0,
            position: 1,
            sequence: 1,
        }];
        attention_rope(&mut qkv, &rows, &CpuRopeTable::new(&spec), &kv, &shape);
        let (keys, values) = (kv.keys.borrow().clone(), kv.values.borrow().clone());
        (qkv, keys, values)
    }

    fn close(got: &[f32], expected: &[f32]) {
        assert_eq!(got.len(), expected.len());
        assert!(
            got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5),
            "{got:?} for {expected:?}"
        );
    }

    #[test]
    fn pairs_of_both_styles() {
        // A quarter turn takes (x, y) to (-y, x).
        let (qkv, ..) = run(RopeStyle::Interleaved);
        close(&qkv[..4], &[-2.0, 1.0, 3.0, 4.0]);
        let (qkv, ..) = run(RopeStyle::Halves);
        close(&qkv[..4], &[-3.0, 2.0, 1.0, 4.0]);
    }

    #[test]
    fn writes_the_position_of_the_row_and_nothing_else() {
        let (_, keys, values) = run(RopeStyle::Interleaved);
        // Sequence 1, position 1, of [2, 4, 1, 4].
        let at = 4 * 4 + 4;
        close(&keys[at..at + 4], &[-6.0, 5.0, 7.0, 8.0]);
        close(&values[at..at + 4], &[9.0, 10.0, 11.0, 12.0]);
        for side in [&keys, &values] {
            assert!(
                side.iter()
                    .enumerate()
                    .all(|(i, &x)| (at..at + 4).contains(&i) || x == 0.0)
            );
        }
    }

    #[test]
    fn the_table_is_exact_at_long_positions() {
        let spec = RopeTableSpec {
            inv_freq: vec![1.0, 0.1],
            magnitude: 2.0,
            positions: 4096,
        };
        let table = CpuRopeTable::new(&spec);
        let (cos, sin) = table.at(4095);
        // Python's math.cos and math.sin of 4095 and 409.5.
        close(cos, &[2.0 * -0.065_975_994, 2.0 * 0.459_863_34]);
        close(&sin[1..], &[2.0 * 0.887_989_7]);
    }
}
