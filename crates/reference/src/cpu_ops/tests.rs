//! Passes of a one-layer model: what no single op can show.

use foretoken_core::ROW_GROUP;

use super::*;
use crate::testing::{FLOATS, bytes, noise};

const HIDDEN: u32 = 32;
const VOCAB: u32 = 40;

/// A one-layer model without feed-forward: enough to send rows through every kind of op.
struct OneLayer {
    table: CpuMatrix,
    qkv: CpuMatrix,
    gate_up: CpuMatrix,
    down: CpuMatrix,
    norm: Vec<f32>,
    kv: CpuKvCache,
    rope: CpuRopeTable,
    shape: AttentionShape,
    x: CpuActivation,
    normed: CpuActivation,
    qkv_out: CpuActivation,
    attended: CpuActivation,
    ffn: CpuActivation,
    last: CpuActivation,
    logits: CpuActivation,
}

fn weights(ops: &mut CpuOps, seed: u32, parts: &[(u32, u32)], layout: MatrixLayout) -> CpuMatrix {
    let described: Vec<_> = parts
        .iter()
        .map(|&(rows, cols)| MatrixPart {
            name: format!("w{seed}"),
            format: FLOATS,
            rows,
            cols,
        })
        .collect();
    let mut matrix = ops.matrix(&described, layout).unwrap();
    for (part, &(rows, cols)) in parts.iter().enumerate() {
        let values = noise(seed + part as u32, (rows * cols) as usize);
        // In two calls, cut at a group.
        let cut = (ROW_GROUP * cols) as usize;
        ops.write_rows(&mut matrix, part, 0, &bytes(&values[..cut]))
            .unwrap();
        ops.write_rows(&mut matrix, part, ROW_GROUP, &bytes(&values[cut..]))
            .unwrap();
    }
    matrix
}

impl OneLayer {
    fn new(ops: &mut CpuOps) -> Self {
        use MatrixLayout::{GateUp, Stacked};
        let shape = AttentionShape {
            heads: 4,
            kv_heads: 2,
            head_dim: 8,
            scale: 0.35,
            rope: foretoken_core::RopeStyle::Interleaved,
            window: None,
        };
        Self {
            table: weights(ops, 10, &[(VOCAB, HIDDEN)], Stacked),
            qkv: weights(
                ops,
                20,
                &[(32, HIDDEN), (16, HIDDEN), (16, HIDDEN)],
                Stacked,
            ),
            gate_up: weights(ops, 30, &[(64, HIDDEN), (64, HIDDEN)], GateUp),
            down: weights(ops, 40, &[(HIDDEN, 64)], Stacked),
            norm: ops.vector("norm", &noise(50, HIDDEN as usize)).unwrap(),
            kv: ops
                .kv_cache(KvShape {
                    sequences: 2,
                    context: 40,
                    heads: 2,
                    kv_heads: 2,
                    head_dim: 8,
                    window: None,
                })
                .unwrap(),
            rope: ops
                .rope_table(&RopeTableSpec {
                    inv_freq: vec![1.0, 0.1, 0.01, 0.001],
                    magnitude: 1.0,
                    positions: 41,
                })
                .unwrap(),
            shape,
            x: ops.activation("x", HIDDEN, RowSet::All).unwrap(),
            normed: ops.activation("normed", HIDDEN, RowSet::All).unwrap(),
            qkv_out: ops.activation("qkv", 64, RowSet::All).unwrap(),
            attended: ops.activation("attended", HIDDEN, RowSet::All).unwrap(),
            ffn: ops.activation("ffn", 64, RowSet::All).unwrap(),
            last: ops.activation("last", HIDDEN, RowSet::Logits).unwrap(),
            logits: ops.activation("logits", VOCAB, RowSet::Logits).unwrap(),
        }
    }

    /// One pass; logits as bits and the choices of the last `logit_rows` rows.
    fn run(
        &self,
        ops: &mut CpuOps,
        phase: Phase,
        rows: &[Row],
        logit_rows: usize,
    ) -> (Vec<u32>, Vec<Chosen>) {
        ops.begin(phase, rows, logit_rows);
        ops.embed(&self.table, 1.0, &self.x);
        ops.rms_norm(&self.x, &self.norm, 1e-5, &self.normed);
        ops.matmul(&self.normed, &self.qkv, None, &self.qkv_out);
        ops.attention(
            &self.qkv_out,
            &self.rope,
            &self.kv,
            &self.shape,
            &self.attended,
        );
        ops.matmul_glu(
            &self.attended,
            &self.gate_up,
            GluActivation::Silu,
            &self.ffn,
        );
        ops.matmul_add(&self.ffn, &self.down, &self.x);
        ops.rms_norm(&self.x, &self.norm, 1e-5, &self.last);
        ops.matmul(&self.last, &self.table, None, &self.logits);
        ops.choose(&self.logits);
        ops.submit().unwrap();
        let logits = now(ops.read_activation(&self.logits)).unwrap();
        (
            logits.iter().map(|logit| logit.to_bits()).collect(),
            now(ops.read_chosen()).unwrap(),
        )
    }
}

/// Nothing here ever waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("CpuOps waits for nothing"),
    }
}

fn row(token: TokenId, position: u32, sequence: u32) -> Row {
    Row {
        token,
        position,
        sequence,
    }
}

#[test]
fn a_row_does_not_depend_on_the_rows_around_it() {
    let rows: Vec<_> = (0..16).map(|i| row(i * 7 % VOCAB, i, 0)).collect();
    let mut ops = CpuOps::new();
    let model = OneLayer::new(&mut ops);
    let (together, chosen) = model.run(&mut ops, Phase::Rows, &rows, 16);
    assert_eq!(chosen.len(), 16);
    for at_a_time in [1, 2, 3, 5, 8] {
        let mut ops = CpuOps::new();
        let model = OneLayer::new(&mut ops);
        let mut apart = Vec::new();
        for rows in rows.chunks(at_a_time) {
            apart.extend(model.run(&mut ops, Phase::Rows, rows, rows.len()).0);
        }
        assert!(apart == together, "{at_a_time} rows at a time");
    }
}

#[test]
fn logits_are_those_of_the_last_rows() {
    let rows: Vec<_> = (0..20).map(|i| row(i, i, 0)).collect();
    let mut ops = CpuOps::new();
    let model = OneLayer::new(&mut ops);
    let (sixteen, sixteen_chosen) = model.run(&mut ops, Phase::Prefill, &rows, 16);
    let (three, three_chosen) = model.run(&mut ops, Phase::Prefill, &rows, 3);
    assert_eq!(three, sixteen[13 * VOCAB as usize..]);
    assert_eq!(three_chosen, sixteen_chosen[13..]);
}

#[test]
fn the_token_on_the_device_is_the_last_choice_of_the_same_sequence() {
    let mut ops = CpuOps::new();
    let model = OneLayer::new(&mut ops);
    let (_, first) = model.run(&mut ops, Phase::Rows, &[row(3, 0, 0), row(20, 0, 1)], 2);
    let [Chosen::Token(a), Chosen::Token(b)] = first[..] else {
        panic!("{first:?}")
    };
    assert_ne!(a, b, "the test needs two different choices");
    let on_device = model.run(
        &mut ops,
        Phase::Rows,
        &[row(TOKEN_ON_DEVICE, 1, 0), row(TOKEN_ON_DEVICE, 1, 1)],
        2,
    );
    assert_eq!(
        model.run(&mut ops, Phase::Rows, &[row(a, 1, 0), row(b, 1, 1)], 2),
        on_device
    );
}

#[test]
fn a_row_that_is_not_finite_is_reported_alone_and_the_next_step_records() {
    let mut ops = CpuOps::new();
    let mut model = OneLayer::new(&mut ops);
    let mut poisoned = vec![0.0; HIDDEN as usize * 8];
    poisoned[0] = f32::NAN;
    ops.write_rows(&mut model.table, 0, 0, &bytes(&poisoned))
        .unwrap();
    // Token 0 is poisoned, and as a row of the head its logit is, in every row.
    let (_, chosen) = model.run(&mut ops, Phase::Rows, &[row(9, 0, 0)], 1);
    assert_eq!(chosen, [Chosen::NonFinite]);
    let (_, chosen) = model.run(&mut ops, Phase::Rows, &[row(TOKEN_ON_DEVICE, 1, 0)], 1);
    assert_eq!(chosen, [Chosen::NonFinite]);
}

#[test]
fn the_bias_is_added_and_matmul_add_keeps_what_was_there() {
    let mut ops = CpuOps::new();
    let model = OneLayer::new(&mut ops);
    ops.begin(Phase::Rows, &[row(5, 0, 0)], 1);
    ops.embed(&model.table, 1.0, &model.x);
    let bias: Vec<f32> = (0..64).map(|i| i as f32).collect();
    ops.matmul(&model.x, &model.qkv, None, &model.qkv_out);
    let without = now(ops.read_activation(&model.qkv_out)).unwrap();
    ops.matmul(&model.x, &model.qkv, Some(&bias), &model.qkv_out);
    let with = now(ops.read_activation(&model.qkv_out)).unwrap();
    assert!(
        with.iter()
            .zip(&without)
            .zip(&bias)
            .all(|((with, without), bias)| *with == without + bias)
    );
    ops.matmul(&model.qkv_out, &model.down, None, &model.normed);
    let product = now(ops.read_activation(&model.normed)).unwrap();
    let before = now(ops.read_activation(&model.x)).unwrap();
    ops.matmul_add(&model.qkv_out, &model.down, &model.x);
    let after = now(ops.read_activation(&model.x)).unwrap();
    assert!(
        after
            .iter()
            .zip(&before)
            .zip(&product)
            .all(|((after, before), add)| *after == before + add)
    );
}

#[test]
#[should_panic(expected = "position 40")]
fn a_row_beyond_the_context_asserts() {
    let mut ops = CpuOps::new();
    let model = OneLayer::new(&mut ops);
    model.run(&mut ops, Phase::Rows, &[row(0, 40, 0)], 1);
}

#[test]
#[should_panic(expected = "33 rows")]
fn a_pass_of_too_many_rows_asserts() {
    CpuOps::new().begin(Phase::Prefill, &[row(0, 0, 0); 33], 1);
}

#[test]
#[should_panic(expected = "end inside a group")]
fn rows_that_cut_a_group_assert() {
    let mut ops = CpuOps::new();
    let mut model = OneLayer::new(&mut ops);
    ops.write_rows(&mut model.table, 0, 0, &[0; 4 * 32 * 4])
        .unwrap();
}
