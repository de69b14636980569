//! Level 2: every op on the GPU equals the same op on `CpuOps`, for every format, on every tier the adapter has; and
//! every row of the row family is bit for bit the same among 1 to 16 rows. Natively, and in a browser's worker.

use std::collections::HashMap;

use foretoken_core::{
    AttentionShape, Chosen, Format, GluActivation, KvShape, MatrixLayout, MatrixPart, Ops, Phase,
    RopeStyle, RopeTableSpec, Row, RowSet,
};
use foretoken_gpu::{GpuOps, GpuOptions, MatmulShape, Tier};
use foretoken_reference::CpuOps;
use foretoken_tests::gpu;
use foretoken_weights::quant::FORMATS;

#[cfg(target_arch = "wasm32")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_dedicated_worker);

/// A small generator with a fixed sequence: a test's data must not depend on a library's version.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    fn values(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.unit()).collect()
    }

    /// File bytes of `weights` weights whose values stay below 2: blocks are drawn until they do.
    fn weights(&mut self, format: Format, weights: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut decoded = vec![0.0; format.block_len()];
        for _ in 0..weights / format.block_len() {
            loop {
                let block: Vec<u8> = (0..format.block_bytes())
                    .map(|_| self.next() as u8)
                    .collect();
                format.dequantize(&block, &mut decoded);
                let sane = |v: &f32| v.is_finite() && v.abs() < 2.0;
                if decoded.iter().all(sane) && decoded.iter().any(|v| v.abs() > 1e-3) {
                    bytes.extend(block);
                    break;
                }
            }
        }
        bytes
    }
}

/// Every tier with every shape of the matmul kernels that a device's class takes; those whose threads share an output once, as they
/// are the same on every tier.
fn every_shape() -> impl Iterator<Item = (Tier, MatmulShape)> {
    Tier::ALL
        .into_iter()
        .flat_map(|tier| MatmulShape::all(tier).map(|shape| (tier, shape)))
        .filter(|(tier, shape)| *tier == Tier::BASE || shape.split == 1)
}

async fn open_with_shape(tier: Tier, shape: MatmulShape) -> Option<GpuOps> {
    let options = GpuOptions {
        tier: Some(tier),
        matmul: Some(shape),
        ..GpuOptions::default()
    };
    gpu::opened(options).await
}

async fn open(tier: Tier) -> Option<GpuOps> {
    let options = GpuOptions {
        tier: Some(tier),
        ..GpuOptions::default()
    };
    gpu::opened(options).await
}

fn rows(n: usize) -> Vec<Row> {
    (0..n)
        .map(|i| Row {
            token: i as u32 * 3 + 1,
            position: i as u32,
            sequence: 0,
        })
        .collect()
}

/// An activation with given values: embedded from an f32 table, the only way in that the ops have.
fn input<O: Ops>(
    ops: &mut O,
    values: &[f32],
    cols: u32,
    set: RowSet,
) -> (O::Activation, O::Matrix) {
    let format = FORMATS
        .iter()
        .copied()
        .find(|f| f.name() == "f32")
        .expect("f32 is a format");
    let part = MatrixPart {
        name: "input".into(),
        format,
        rows: values.len() as u32 / cols,
        cols,
    };
    let mut table = ops.matrix(&[part], MatrixLayout::Stacked).unwrap();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    ops.write_rows(&mut table, 0, 0, &bytes).unwrap();
    (ops.activation("input", cols, set).unwrap(), table)
}

/// Row table whose tokens are 0, 1, 2 …, for [`input`].
fn counted(n: usize, first_position: u32) -> Vec<Row> {
    (0..n as u32)
        .map(|i| Row {
            token: i,
            position: first_position + i,
            sequence: 0,
        })
        .collect()
}

fn close(what: &str, gpu: &[f32], cpu: &[f32], tolerance: f32) {
    assert_eq!(gpu.len(), cpu.len(), "{what}: length");
    let scale = cpu.iter().fold(1.0f32, |m, v| m.max(v.abs()));
    for (i, (a, b)) in gpu.iter().zip(cpu).enumerate() {
        assert!(
            (a - b).abs() <= tolerance * scale,
            "{what}: [{i}] {a} on the GPU, {b} on the CPU (scale {scale})"
        );
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Use {
    Plain,
    Bias,
    Add,
    Glu(GluActivation),
}

/// Runs one matmul on any ops and reads its result.
async fn matmul<O: Ops>(
    ops: &mut O,
    usage: Use,
    parts: &[(Format, u32, Vec<u8>)],
    cols: u32,
    x: &[f32],
    y: &[f32],
    phase: Phase,
) -> Vec<f32> {
    let n = x.len() / cols as usize;
    let specs: Vec<MatrixPart> = parts
        .iter()
        .enumerate()
        .map(|(i, (format, rows, _))| MatrixPart {
            name: format!("w{i}"),
            format: *format,
            rows: *rows,
            cols,
        })
        .collect();
    let layout = if matches!(usage, Use::Glu(_)) {
        MatrixLayout::GateUp
    } else {
        MatrixLayout::Stacked
    };
    let mut w = ops.matrix(&specs, layout).unwrap();
    for (i, (format, rows, bytes)) in parts.iter().enumerate() {
        // Two blocks of rows, the second one ragged: as the loader writes them.
        let row_bytes = format.row_bytes(u64::from(cols)).unwrap() as usize;
        let first = (rows / 16 * 8) as usize;
        ops.write_rows(&mut w, i, 0, &bytes[..first * row_bytes])
            .unwrap();
        ops.write_rows(&mut w, i, first as u32, &bytes[first * row_bytes..])
            .unwrap();
    }
    let outputs: u32 = if matches!(usage, Use::Glu(_)) {
        parts[0].1
    } else {
        parts.iter().map(|p| p.1).sum()
    };
    let (input_x, table_x) = input(ops, x, cols, RowSet::All);
    let bias: Vec<f32> = (0..outputs).map(|o| o as f32 * 0.01).collect();
    let bias = ops.vector("bias", &bias).unwrap();
    ops.begin(phase, &counted(n, 0), 1);
    ops.embed(&table_x, 1.0, &input_x);
    let out = if usage == Use::Add {
        let (out, table_y) = input(ops, y, outputs, RowSet::All);
        ops.embed(&table_y, 1.0, &out);
        ops.matmul_add(&input_x, &w, &out);
        out
    } else {
        let out = ops.activation("out", outputs, RowSet::All).unwrap();
        match usage {
            Use::Bias => ops.matmul(&input_x, &w, Some(&bias), &out),
            Use::Glu(activation) => ops.matmul_glu(&input_x, &w, activation, &out),
            _ => ops.matmul(&input_x, &w, None, &out),
        }
        out
    };
    ops.submit().unwrap();
    ops.read_activation(&out).await.unwrap()
}

/// Random weights `[outputs, cols]` in one format, as parts of the matrix that `usage` takes.
fn parts(
    random: &mut Random,
    usage: Use,
    format: Format,
    outputs: u32,
    cols: u32,
) -> Vec<(Format, u32, Vec<u8>)> {
    let count = if matches!(usage, Use::Glu(_)) { 2 } else { 1 };
    let mut part = || random.weights(format, (outputs * cols) as usize);
    (0..count).map(|_| (format, outputs, part())).collect()
}

async fn matmul_of_every_format_and_epilogue() {
    let mut random = Random(1);
    for (tier, shape) in every_shape() {
        let Some(mut gpu) = open_with_shape(tier, shape).await else {
            continue;
        };
        let mut cpu = CpuOps::new();
        for &format in FORMATS {
            let cols = 256;
            for usage in [
                Use::Plain,
                Use::Bias,
                Use::Add,
                Use::Glu(GluActivation::Silu),
            ] {
                // Outputs that end inside a group (but the residual is embedded, so whole blocks there).
                let outputs = if usage == Use::Add { 96 } else { 83 };
                let parts = parts(&mut random, usage, format, outputs, cols);
                for (n, phase) in [
                    (1, Phase::Rows),
                    (3, Phase::Rows),
                    (16, Phase::Rows),
                    (31, Phase::Prefill),
                ] {
                    let x = random.values(n * cols as usize);
                    let y = random.values(n * outputs as usize);
                    let a = matmul(&mut gpu, usage, &parts, cols, &x, &y, phase).await;
                    let b = matmul(&mut cpu, usage, &parts, cols, &x, &y, phase).await;
                    close(
                        &format!("{tier} {shape} {} {usage:?} {n} rows", format.name()),
                        &a,
                        &b,
                        2e-5,
                    );
                }
            }
        }
    }
}

async fn matmul_of_mixed_formats_within_a_group() {
    let mut random = Random(2);
    let by_name: HashMap<_, _> = FORMATS.iter().map(|f| (f.name(), *f)).collect();
    // As files of K-quants mix them: q and k in one format, v in another; gate and up alike or not.
    for (few, more) in [("q4_1", "q8_0"), ("q5_0", "q6_k"), ("q4_k", "q5_k")] {
        mixed(by_name[few], by_name[more], &mut random).await;
    }
}

async fn mixed(q4: Format, q8: Format, random: &mut Random) {
    let cols = 256;
    let mut part =
        |format: Format, rows: u32| (format, rows, random.weights(format, (rows * cols) as usize));
    let stacked = [part(q4, 24), part(q8, 16), part(q8, 19), part(q4, 8)];
    let gate_up = [part(q4, 40), part(q8, 40)];
    for (tier, shape) in every_shape().filter(|(tier, _)| *tier == Tier::BASE) {
        let Some(mut gpu) = open_with_shape(tier, shape).await else {
            continue;
        };
        for (phase, rows) in [(Phase::Rows, 5), (Phase::Prefill, 31)] {
            let x = Random(3).values(rows * cols as usize);
            for (usage, parts) in [
                (Use::Plain, &stacked[..]),
                (Use::Bias, &stacked[..]),
                (Use::Glu(GluActivation::GeluTanh), &gate_up[..]),
            ] {
                let a = matmul(&mut gpu, usage, parts, cols, &x, &[], phase).await;
                let b = matmul(&mut CpuOps::new(), usage, parts, cols, &x, &[], phase).await;
                close(
                    &format!(
                        "{tier} {shape:?} {} with {} {usage:?} {phase:?}",
                        q4.name(),
                        q8.name()
                    ),
                    &a,
                    &b,
                    2e-5,
                );
            }
        }
    }
}

/// Activations of up to 64 KiB may come from a uniform buffer: a prompt's through several windows of it, those of 16 rows
/// not at all, and no row's bits may tell.
async fn activations_beyond_a_uniform_binding() {
    let mut random = Random(5);
    let tier = Tier {
        subgroups: true,
        f16: false,
    };
    // With tiles too, which only hardware's shapes have.
    let tuned = [true, false].map(|software| MatmulShape::candidates(software, tier));
    let shapes = MatmulShape::all(tier).into_iter();
    let shapes = shapes.chain(tuned.into_iter().flatten());
    for shape in shapes.filter(|shape| shape.broadcast) {
        let Some(mut gpu) = open_with_shape(tier, shape).await else {
            continue;
        };
        for (usage, cols) in [
            (Use::Bias, 2048),
            (Use::Add, 1056),
            (Use::Glu(GluActivation::GeluTanh), 1056),
            (Use::Add, 4128),
        ] {
            let format = FORMATS.iter().find(|f| f.name() == "q8_0").copied();
            let format = format.expect("q8_0 is read");
            let outputs = 64;
            let parts = parts(&mut random, usage, format, outputs, cols);
            let x = Random(6).values(31 * cols as usize);
            let y = Random(7).values(31 * outputs as usize);
            let what = format!("{tier} {shape:?} {usage:?}");

            let a = matmul(&mut gpu, usage, &parts, cols, &x, &y, Phase::Prefill).await;
            let cpu = &mut CpuOps::new();
            let b = matmul(cpu, usage, &parts, cols, &x, &y, Phase::Prefill).await;
            close(&what, &a, &b, 1e-4);

            let of = |n: usize| (&x[..n * cols as usize], &y[..n * outputs as usize]);
            let (x16, y16) = of(16);
            let whole = matmul(&mut gpu, usage, &parts, cols, x16, y16, Phase::Rows).await;
            for n in [1, 2, 4, 5, 8, 9] {
                let (x, y) = of(n);
                let some = matmul(&mut gpu, usage, &parts, cols, x, y, Phase::Rows).await;
                let mut pairs = some.iter().zip(&whole);
                let same = pairs.all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{what}: {n} rows differ from 16");
            }
        }
    }
}

async fn a_pass_without_logits_records_no_head_however_wide() {
    for (tier, shape) in every_shape() {
        let Some(mut gpu) = open_with_shape(tier, shape).await else {
            continue;
        };
        // No chunk of so wide rows fits a uniform binding.
        let part = MatrixPart {
            name: "head".to_owned(),
            format: FORMATS[0],
            rows: 64,
            cols: 2080,
        };
        let head = gpu.matrix(&[part], MatrixLayout::Stacked).unwrap();
        let x = gpu.activation("x", 2080, RowSet::Logits).unwrap();
        let out = gpu.activation("out", 64, RowSet::Logits).unwrap();
        let row = |position| Row {
            token: 0,
            position,
            sequence: 0,
        };
        gpu.begin(Phase::Prefill, &[row(0), row(1)], 0);
        let before = gpu.counters();
        gpu.matmul(&x, &head, None, &out);
        gpu.submit().unwrap();
        let dispatches = gpu.counters().since(&before).dispatches;
        assert_eq!(dispatches, 0, "{tier} {shape:?}");
    }
}

async fn a_matrix_larger_than_a_binding_is_split() {
    let tiny = GpuOptions {
        max_binding_bytes: Some(16 << 10),
        tier: Some(Tier::BASE),
        ..GpuOptions::default()
    };
    let Some(mut gpu) = gpu::opened(tiny).await else {
        return;
    };
    let mut cpu = CpuOps::new();
    let mut random = Random(4);
    let q8 = FORMATS
        .iter()
        .copied()
        .find(|f| f.name() == "q8_0")
        .unwrap();
    let cols = 64;
    let mut part = |rows: u32| (q8, rows, random.weights(q8, (rows * cols) as usize));
    let parts = [part(700), part(333)];
    let gate_up = [part(400), part(400)];
    let x = Random(5).values(4 * cols as usize);
    // 1033 rows of 64 bytes are five slabs of at most 16 KiB; gate and up two each; and one dispatch embeds the input.
    for (usage, parts, dispatches) in [
        (Use::Plain, &parts[..], 5 + 1),
        (Use::Glu(GluActivation::GeluTanh), &gate_up[..], 2 * 2 + 1),
    ] {
        let before = gpu.counters();
        let a = matmul(&mut gpu, usage, parts, cols, &x, &[], Phase::Rows).await;
        assert_eq!(
            gpu.counters().since(&before).dispatches,
            dispatches,
            "{usage:?}: a dispatch a slab"
        );
        let b = matmul(&mut cpu, usage, parts, cols, &x, &[], Phase::Rows).await;
        close(&format!("split {usage:?}"), &a, &b, 2e-5);
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// What makes tuning free: workgroup, outputs and rows a thread and the way to the activations change no bit. And what
/// makes the rest safe: another order of summation is near the CPU's, and does not depend on the rows of a pass.
async fn tuned_shapes_have_the_bits_of_those_that_sum_alike() {
    let mut random = Random(13);
    let cols = 256;
    // Matmuls are the same with and without f16, and direct ones with and without subgroups.
    let tiers = Tier::ALL.into_iter().filter(|tier| !tier.f16);
    let mut shapes: Vec<(Tier, MatmulShape)> = Vec::new();
    for tier in tiers {
        let tuned = [true, false].map(|software| MatmulShape::candidates(software, tier));
        for shape in MatmulShape::all(tier)
            .into_iter()
            .chain(tuned.into_iter().flatten())
        {
            if shape.broadcast == tier.subgroups && !shapes.contains(&(tier, shape)) {
                shapes.push((tier, shape));
            }
        }
    }
    let mut gpus: Vec<(MatmulShape, GpuOps)> = Vec::new();
    for (tier, shape) in shapes {
        gpus.extend(open_with_shape(tier, shape).await.map(|gpu| (shape, gpu)));
    }
    let mut compared = 0;
    // A shape reaches no line of a format (`Coverage` of the catalog), so a few of its kinds will do: without scales, with one a block,
    // and with scales that blocks share.
    let formats = FORMATS.iter().copied();
    let formats: Vec<Format> = formats
        .filter(|format| ["f16", "q8_0", "q6_k"].contains(&format.name()))
        .collect();
    assert_eq!(formats.len(), 3);
    for format in formats {
        for usage in [
            Use::Plain,
            Use::Bias,
            Use::Add,
            Use::Glu(GluActivation::Silu),
        ] {
            let outputs = 96;
            let parts = parts(&mut random, usage, format, outputs, cols);
            let x = Random(14).values(31 * cols as usize);
            let y = Random(15).values(31 * outputs as usize);
            let run = async |gpu: &mut GpuOps, rows: usize, phase| {
                let (x, y) = (&x[..rows * cols as usize], &y[..rows * outputs as usize]);
                matmul(gpu, usage, &parts, cols, x, y, phase).await
            };
            let cpu = matmul(
                &mut CpuOps::new(),
                usage,
                &parts,
                cols,
                &x,
                &y,
                Phase::Prefill,
            )
            .await;
            // By how they sum: the first shape that does, and its 16 rows and its prompt of 31.
            let mut alike: HashMap<u32, (MatmulShape, Vec<u32>)> = HashMap::new();
            let mut prompts: HashMap<(bool, u32), (MatmulShape, Vec<u32>)> = HashMap::new();
            for (shape, gpu) in &mut gpus {
                let what = format!("{shape} {} {usage:?}", format.name());
                let whole = run(gpu, 16, Phase::Rows).await;
                close(&what, &whole, &cpu[..whole.len()], 2e-5);
                let whole = bits(&whole);
                // One run for every number of rows that a thread takes.
                for rows in [1, 2, 3] {
                    let some = bits(&run(gpu, rows, Phase::Rows).await);
                    assert!(whole.starts_with(&some), "{what}: {rows} rows and 16");
                }
                let prompt = run(gpu, 31, Phase::Prefill).await;
                close(&what, &prompt, &cpu, 2e-5);
                // Tiles sum in one way, whatever the row kernels do.
                let sums = (
                    shape.tiled_prefill,
                    if shape.tiled_prefill { 1 } else { shape.split },
                );
                for ((known, expected), result) in [
                    (
                        &*alike.entry(shape.split).or_insert((*shape, whole.clone())),
                        &whole,
                    ),
                    (
                        &*prompts.entry(sums).or_insert((*shape, bits(&prompt))),
                        &bits(&prompt),
                    ),
                ] {
                    assert!(result == expected, "{what}: not the bits of {known}");
                    compared += usize::from(shape != known);
                }
            }
        }
    }
    assert!(gpus.is_empty() || compared > 0);
}

async fn embed<O: Ops>(
    ops: &mut O,
    format: Format,
    bytes: &[u8],
    vocab: u32,
    cols: u32,
) -> Vec<f32> {
    let part = MatrixPart {
        name: "table".into(),
        format,
        rows: vocab,
        cols,
    };
    let mut table = ops.matrix(&[part], MatrixLayout::Stacked).unwrap();
    ops.write_rows(&mut table, 0, 0, bytes).unwrap();
    let out = ops.activation("hidden", cols, RowSet::All).unwrap();
    ops.begin(Phase::Rows, &rows(13), 1);
    ops.embed(&table, 1.0, &out);
    ops.submit().unwrap();
    ops.read_activation(&out).await.unwrap()
}

async fn embed_of_every_format_decodes_as_the_cpu_does() {
    let mut random = Random(6);
    for tier in Tier::ALL {
        let Some(mut gpu) = open(tier).await else {
            continue;
        };
        for &format in FORMATS {
            let (vocab, cols) = (41, 256);
            let bytes = random.weights(format, (vocab * cols) as usize);
            let a = embed(&mut gpu, format, &bytes, vocab, cols).await;
            let b = embed(&mut CpuOps::new(), format, &bytes, vocab, cols).await;
            for (i, (a, b)) in a.iter().zip(&b).enumerate() {
                // Products of a weight's few bits are exact in f32, so all that rounds is the sum with a minimum, and a
                // device may round it either way; denormals may be flushed.
                let near = (a - b).abs() <= 2.0 * f32::EPSILON * b.abs().max(f32::MIN_POSITIVE);
                assert!(near, "{tier} {}: [{i}] {a} and {b}", format.name());
            }
        }
    }
}

async fn rms_norm<O: Ops>(ops: &mut O, x: &[f32], weight: &[f32], out_rows: RowSet) -> Vec<f32> {
    let cols = weight.len() as u32;
    let (hidden, table) = input(ops, x, cols, RowSet::All);
    let weight = ops.vector("norm", weight).unwrap();
    let out = ops.activation("normed", cols, out_rows).unwrap();
    ops.begin(Phase::Rows, &counted(x.len() / cols as usize, 0), 3);
    ops.embed(&table, 1.0, &hidden);
    ops.rms_norm(&hidden, &weight, 1e-5, &out);
    ops.submit().unwrap();
    ops.read_activation(&out).await.unwrap()
}

async fn rms_norm_of_all_rows_and_of_logit_rows() {
    let Some(mut gpu) = open(Tier::BASE).await else {
        return;
    };
    let mut random = Random(7);
    for cols in [32usize, 576, 2048] {
        let (x, weight) = (random.values(7 * cols), random.values(cols));
        for (set, expected) in [(RowSet::All, 7), (RowSet::Logits, 3)] {
            let a = rms_norm(&mut gpu, &x, &weight, set).await;
            let b = rms_norm(&mut CpuOps::new(), &x, &weight, set).await;
            assert_eq!(a.len(), expected * cols);
            close(&format!("rms_norm {cols} {set:?}"), &a, &b, 1e-5);
        }
    }
}

async fn qk_norm<O: Ops>(ops: &mut O, x: &[f32], shape: &AttentionShape) -> Vec<f32> {
    let cols = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
    let weight: Vec<f32> = (0..2 * shape.head_dim)
        .map(|i| 0.5 + i as f32 * 0.01)
        .collect();
    let weight = ops.vector("weight", &weight).unwrap();
    let (qkv, table) = input(ops, x, cols, RowSet::All);
    ops.begin(Phase::Rows, &counted(x.len() / cols as usize, 0), 1);
    ops.embed(&table, 1.0, &qkv);
    ops.qk_norm(&qkv, &weight, 1e-6, shape);
    ops.submit().unwrap();
    ops.read_activation(&qkv).await.unwrap()
}

async fn qk_norm_of_every_head_and_row() {
    let Some(mut gpu) = open(Tier::BASE).await else {
        return;
    };
    for (heads, kv_heads, head_dim) in [(9, 3, 64), (4, 1, 256), (2, 3, 20)] {
        let shape = AttentionShape {
            heads,
            kv_heads,
            head_dim,
            scale: 1.0,
            rope: RopeStyle::Halves,
            window: None,
        };
        let cols = (heads + 2 * kv_heads) * head_dim;
        for rows in [1, 16] {
            let x = Random(16).values(rows * cols as usize);
            let a = qk_norm(&mut gpu, &x, &shape).await;
            let b = qk_norm(&mut CpuOps::new(), &x, &shape).await;
            close(&format!("qk_norm {shape:?}, {rows} rows"), &a, &b, 1e-5);
            // What a row has does not depend on those beside it.
            let last = (rows - 1) * cols as usize;
            let alone = qk_norm(&mut gpu, &x[last..], &shape).await;
            assert_eq!(
                bits(&alone),
                bits(&a[last..]),
                "{shape:?}: the last row alone"
            );
        }
    }
}

async fn rms_norm_add<O: Ops>(ops: &mut O, x: &[f32], y: &[f32], cols: u32) -> Vec<f32> {
    let weight: Vec<f32> = (0..cols).map(|i| 0.5 + i as f32 * 0.01).collect();
    let weight = ops.vector("weight", &weight).unwrap();
    let (x_in, x_table) = input(ops, x, cols, RowSet::All);
    let (y_in, y_table) = input(ops, y, cols, RowSet::All);
    ops.begin(Phase::Rows, &counted(x.len() / cols as usize, 0), 1);
    ops.embed(&x_table, 3.0, &x_in);
    ops.embed(&y_table, 1.0, &y_in);
    ops.rms_norm_add(&x_in, &weight, 1e-6, &y_in);
    ops.submit().unwrap();
    ops.read_activation(&y_in).await.unwrap()
}

async fn rms_norm_add_adds_to_what_is_there() {
    let Some(mut gpu) = open(Tier::BASE).await else {
        return;
    };
    for (cols, rows) in [(96, 1), (640, 16)] {
        let x = Random(17).values(rows * cols as usize);
        let y = Random(18).values(rows * cols as usize);
        let a = rms_norm_add(&mut gpu, &x, &y, cols).await;
        let b = rms_norm_add(&mut CpuOps::new(), &x, &y, cols).await;
        close(&format!("rms_norm_add {cols}, {rows} rows"), &a, &b, 1e-5);
    }
}

/// Positions of the caches below.
const CONTEXT: u32 = 1024;

/// Passes of so many rows one after another, from the first position on; what the last pass's rows attend to.
async fn attention<O: Ops>(
    ops: &mut O,
    shape: &AttentionShape,
    x: &[f32],
    passes: &[usize],
) -> Vec<f32> {
    let follow = |position: &mut u32, &rows: &usize| {
        *position += rows as u32;
        Some((*position - rows as u32, rows))
    };
    let passes: Vec<_> = passes.iter().scan(0, follow).collect();
    attention_at(ops, shape, x, &passes).await
}

/// Passes of rows, each from a position on; what the last pass's rows attend to. Row r of `x` is that of position r.
async fn attention_at<O: Ops>(
    ops: &mut O,
    shape: &AttentionShape,
    x: &[f32],
    passes: &[(u32, usize)],
) -> Vec<f32> {
    let cols = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
    let pairs = shape.head_dim / 2;
    let inv_freq = (0..pairs)
        .map(|i| 10_000f64.powf(-f64::from(i) / f64::from(pairs)))
        .collect();
    let rope = ops
        .rope_table(&RopeTableSpec {
            inv_freq,
            magnitude: 1.0,
            positions: CONTEXT,
        })
        .unwrap();
    let kv = KvShape {
        sequences: 2,
        context: CONTEXT,
        heads: shape.heads,
        kv_heads: shape.kv_heads,
        head_dim: shape.head_dim,
        window: shape.window,
    };
    let kv = ops.kv_cache(kv).unwrap();
    let (qkv, table) = input(ops, x, cols, RowSet::All);
    let out = ops
        .activation("attended", shape.heads * shape.head_dim, RowSet::All)
        .unwrap();
    for &(position, n) in passes {
        let rows: Vec<Row> = (position..position + n as u32)
            .map(|p| Row {
                token: p,
                position: p,
                sequence: 1,
            })
            .collect();
        ops.begin(if n > 16 { Phase::Prefill } else { Phase::Rows }, &rows, 1);
        ops.embed(&table, 1.0, &qkv);
        ops.attention(&qkv, &rope, &kv, shape, &out);
        ops.submit().unwrap();
    }
    ops.read_activation(&out).await.unwrap()
}

async fn attention_over_several_spans_in_both_rope_styles() {
    for tier in Tier::ALL {
        let Some(mut gpu) = open(tier).await else {
            continue;
        };
        for (rope, heads, kv_heads, head_dim) in [
            (RopeStyle::Interleaved, 9, 3, 64),
            (RopeStyle::Halves, 4, 4, 32),
            (RopeStyle::Halves, 8, 2, 16),
        ] {
            let shape = AttentionShape {
                heads,
                kv_heads,
                head_dim,
                scale: (head_dim as f32).powf(-0.5),
                rope,
                window: None,
            };
            // 4 · 32 + 1 crosses a span inside the last pass; 11 · 32 + 5 stands in the third span.
            for passes in [
                vec![1],
                vec![32, 32, 32, 30, 5],
                [vec![32; 11], vec![5]].concat(),
            ] {
                let cols = ((heads + 2 * kv_heads) * head_dim) as usize;
                let x = Random(8).values(passes.iter().sum::<usize>() * cols);
                let a = attention(&mut gpu, &shape, &x, &passes).await;
                let b = attention(&mut CpuOps::new(), &shape, &x, &passes).await;
                close(
                    &format!("{tier} attention {shape:?} {passes:?}"),
                    &a,
                    &b,
                    if tier.f16 { 1e-3 } else { 2e-5 },
                );
            }
        }
    }
}

/// Heads for which each way through a span is taken, one subgroup's and any device's.
const HEADS: [(RopeStyle, u32, u32, u32); 2] = [
    (RopeStyle::Interleaved, 9, 3, 64),
    (RopeStyle::Halves, 8, 2, 16),
];

/// A window over a cache that is a ring: of 17 positions within spans, of 200 over several, before and after the ring is full, and with
/// drafts that were rejected, at the end of the ring too.
async fn attention_over_a_window_whose_cache_is_a_ring() {
    for tier in Tier::ALL {
        let Some(mut gpu) = open(tier).await else {
            continue;
        };
        for (rope, heads, kv_heads, head_dim) in HEADS {
            for window in [17, 200] {
                let shape = AttentionShape {
                    heads,
                    kv_heads,
                    head_dim,
                    scale: (head_dim as f32).powf(-0.5),
                    rope,
                    window: Some(window),
                };
                let prompt = |passes: u32| (0..passes).map(|pass| (32 * pass, 32));
                // A block of 16, of which three are kept, time and again: the rest is overwritten.
                let verified =
                    |from: u32, blocks: u32| (0..blocks).map(move |i| (from + 3 * i, 16));
                for passes in [
                    vec![(0, 1)],
                    prompt(4).chain([(128, 7)]).collect(),
                    prompt(15).chain(verified(480, 24)).collect(),
                    prompt(30).chain(verified(960, 12)).collect::<Vec<_>>(),
                ] {
                    let cols = ((heads + 2 * kv_heads) * head_dim) as usize;
                    let x = Random(8).values(CONTEXT as usize * cols);
                    let a = attention_at(&mut gpu, &shape, &x, &passes).await;
                    let b = attention_at(&mut CpuOps::new(), &shape, &x, &passes).await;
                    let what = format!("{tier} attention {shape:?}, {} passes", passes.len());
                    close(&what, &a, &b, if tier.f16 { 1e-3 } else { 2e-5 });
                }
            }
        }
    }
}

/// Rows over a window have the bits of the same rows alone, on both sides of a span's edge and of the ring's.
async fn rows_over_a_window_are_bitwise_the_same_alone() {
    for tier in Tier::ALL {
        let Some(mut gpu) = open(tier).await else {
            continue;
        };
        for (rope, heads, kv_heads, head_dim) in HEADS {
            let shape = AttentionShape {
                heads,
                kv_heads,
                head_dim,
                scale: (head_dim as f32).powf(-0.5),
                rope,
                window: Some(70),
            };
            let cols = ((heads + 2 * kv_heads) * head_dim) as usize;
            let out_cols = (heads * head_dim) as usize;
            let x = Random(15).values(CONTEXT as usize * cols);
            for passes in [3, 15] {
                let prompt = (0..passes).map(|pass| (32 * pass, 32));
                let first = 32 * passes + 24;
                let before: Vec<_> = prompt.chain([(32 * passes, 24)]).collect();
                let together = [&before[..], &[(first, 16)]].concat();
                let whole = attention_at(&mut gpu, &shape, &x, &together).await;
                for n in [1, 6, 8, 9, 16] {
                    let alone = (first..first + n).map(|position| (position, 1));
                    let alone: Vec<_> = before.iter().copied().chain(alone).collect();
                    let row = attention_at(&mut gpu, &shape, &x, &alone).await;
                    let expected = &whole[(n as usize - 1) * out_cols..n as usize * out_cols];
                    assert_eq!(bits(&row), bits(expected), "{tier} {shape:?}: row {n}");
                }
            }
        }
    }
}

/// Where attention is one dispatch and where it is three, keys and values and what is made of them have the same bits.
async fn attention_has_the_same_bits_in_one_dispatch_and_in_three() {
    for tier in Tier::ALL {
        let Some(mut gpu) = open(tier).await else {
            continue;
        };
        for (rope, heads, kv_heads, head_dim) in [
            (RopeStyle::Interleaved, 9, 3, 64),
            (RopeStyle::Halves, 9, 3, 64),
            (RopeStyle::Halves, 8, 2, 16),
        ] {
            let shape = AttentionShape {
                heads,
                kv_heads,
                head_dim,
                scale: (head_dim as f32).powf(-0.5),
                rope,
                window: None,
            };
            let cols = ((heads + 2 * kv_heads) * head_dim) as usize;
            let out_cols = (heads * head_dim) as usize;
            // 16 rows over two spans take three dispatches: 120 of the positions are there before.
            let x = Random(14).values(136 * cols);
            let whole = attention(&mut gpu, &shape, &x, &[32, 32, 32, 24, 16]).await;
            // The same rows alone, in the first span one dispatch each: what they wrote, later ones read.
            for n in [1, 7, 8] {
                let passes = [vec![32, 32, 32, 24], vec![1; n]].concat();
                let before = gpu.counters().dispatches;
                let row = attention(&mut gpu, &shape, &x[..(120 + n) * cols], &passes).await;
                let dispatches = gpu.counters().dispatches - before;
                assert_eq!(
                    dispatches,
                    4 * (1 + 3) + n as u64 * (1 + 1),
                    "{tier} {shape:?}: embed and attention of every pass"
                );
                let expected = &whole[(n - 1) * out_cols..n * out_cols];
                assert_eq!(bits(&row), bits(expected), "{tier} {shape:?}: row {n}");
            }
        }
    }
}

async fn choose<O: Ops>(ops: &mut O, logits: &[f32], vocab: u32) -> Vec<Chosen> {
    let (all, table) = input(ops, logits, vocab, RowSet::All);
    let out = ops.activation("logits", vocab, RowSet::Logits).unwrap();
    let n = logits.len() / vocab as usize;
    let identity = ops.vector("ones", &vec![1.0; vocab as usize]).unwrap();
    ops.begin(Phase::Rows, &counted(n, 0), n);
    ops.embed(&table, 1.0, &all);
    // A norm keeps order, ties and non-finite rows, and brings rows into the logits' row set.
    ops.rms_norm(&all, &identity, 1e-5, &out);
    ops.choose(&out);
    ops.submit().unwrap();
    ops.read_chosen().await.unwrap()
}

async fn choose_takes_the_largest_the_lowest_of_ties_and_refuses_non_finite_rows() {
    let Some(mut gpu) = open(Tier::BASE).await else {
        return;
    };
    let vocab = 5024u32;
    let mut logits = Random(9).values(4 * vocab as usize);
    let at = |row: usize, token: u32| row * vocab as usize + token as usize;
    logits[at(0, 5023)] = 3.0;
    for token in [4100, 2047, 2048, 63, 64] {
        logits[at(1, token)] = 5.0;
    }
    logits[at(2, 1)] = f32::NAN;
    logits[at(3, 4000)] = f32::INFINITY;
    let expected = [
        Chosen::Token(5023),
        Chosen::Token(63),
        Chosen::NonFinite,
        Chosen::NonFinite,
    ];
    assert_eq!(choose(&mut gpu, &logits, vocab).await, expected);
    assert_eq!(choose(&mut CpuOps::new(), &logits, vocab).await, expected);
}

async fn every_row_is_bitwise_the_same_among_1_to_16_rows() {
    let mut random = Random(10);
    let cols = 256;
    let x = random.values(16 * cols as usize);
    for (tier, shape) in every_shape() {
        let Some(mut gpu) = open_with_shape(tier, shape).await else {
            continue;
        };
        for &format in FORMATS {
            for usage in [
                Use::Plain,
                Use::Bias,
                Use::Add,
                Use::Glu(GluActivation::Silu),
            ] {
                let outputs = 96;
                let parts = parts(&mut random, usage, format, outputs, cols);
                let y = Random(11).values(16 * outputs as usize);
                let whole = matmul(&mut gpu, usage, &parts, cols, &x, &y, Phase::Rows).await;
                for n in 1..16 {
                    let (x, y) = (&x[..n * cols as usize], &y[..n * outputs as usize]);
                    let some = matmul(&mut gpu, usage, &parts, cols, x, y, Phase::Rows).await;
                    let same = some
                        .iter()
                        .zip(&whole)
                        .all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(
                        same,
                        "{tier} {shape:?} {} {usage:?}: {n} rows differ from 16",
                        format.name()
                    );
                }
            }
        }
        let shape = AttentionShape {
            heads: 9,
            kv_heads: 3,
            head_dim: 64,
            scale: 0.125,
            rope: RopeStyle::Halves,
            window: None,
        };
        let x = Random(12).values(136 * 15 * 64);
        let whole = attention(&mut gpu, &shape, &x, &[32, 32, 32, 24, 16]).await;
        for n in 1..16usize {
            let some = attention(
                &mut gpu,
                &shape,
                &x[..(120 + n) * 15 * 64],
                &[32, 32, 32, 24, n],
            )
            .await;
            let same = some
                .iter()
                .zip(&whole)
                .all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{tier} attention: {n} rows differ from 16");
        }
    }
}

foretoken_tests::everywhere! {
    mod of_few_pipelines {
    matmul_of_mixed_formats_within_a_group,
    a_pass_without_logits_records_no_head_however_wide,
    a_matrix_larger_than_a_binding_is_split,
    embed_of_every_format_decodes_as_the_cpu_does,
    rms_norm_of_all_rows_and_of_logit_rows,
    rms_norm_add_adds_to_what_is_there,
    qk_norm_of_every_head_and_row,
    attention_over_a_window_whose_cache_is_a_ring,
    rows_over_a_window_are_bitwise_the_same_alone,
    attention_over_several_spans_in_both_rope_styles,
    attention_has_the_same_bits_in_one_dispatch_and_in_three,
    choose_takes_the_largest_the_lowest_of_ties_and_refuses_non_finite_rows,
    }
}

// Hundreds of pipelines each: minutes where a browser compiles them for a software driver.
foretoken_tests::everywhere! {
    long in a browser: mod of_many_pipelines {
    matmul_of_every_format_and_epilogue,
    activations_beyond_a_uniform_binding,
    tuned_shapes_have_the_bits_of_those_that_sum_alike,
    every_row_is_bitwise_the_same_among_1_to_16_rows,
    }
}
