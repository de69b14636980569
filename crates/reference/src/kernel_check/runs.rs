//! One op at a time on any ops: allocate, record, submit, read.

use foretoken_core::{
    AttentionShape, Chosen, Format, GluActivation, KvShape, MatchOrder, MatrixLayout, MatrixPart,
    NgramLookup, Ops, OpsError, Phase, Position, RopeStyle, RopeTableSpec, Row, RowSet, Sampling,
    StepLimits, TokenId,
};

use super::data::{Random, bytes_of};

/// What becomes of a product with weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Product {
    Plain,
    Bias,
    Add,
    Glu(GluActivation),
}

impl Product {
    /// Its op.
    pub(super) fn op(self) -> &'static str {
        match self {
            Product::Plain | Product::Bias => "matmul",
            Product::Add => "matmul_add",
            Product::Glu(_) => "matmul_glu",
        }
    }
}

/// Inputs and outputs of the products.
const COLS: u32 = 256;
const OUTPUTS: u32 = 96;
/// Of the logits: more than one workgroup's share, and no whole number of them.
const VOCAB: u32 = 5024;
const EPS: f32 = 1e-5;

/// Rows `0, 1, 2 …` of a table, at positions from `first` on.
fn counted(rows: usize, first: Position) -> Vec<Row> {
    (0..rows as Position)
        .map(|i| Row {
            token: i,
            position: first + i,
            sequence: 0,
        })
        .collect()
}

fn matrix<O: Ops>(
    ops: &mut O,
    format: Format,
    parts: &[&[u8]],
    rows: u32,
    cols: u32,
) -> Result<O::Matrix, OpsError> {
    let described: Vec<MatrixPart> = (0..parts.len())
        .map(|i| MatrixPart {
            name: format!("known {i}"),
            format,
            rows,
            cols,
        })
        .collect();
    let layout = match parts.len() {
        1 => MatrixLayout::Stacked,
        _ => MatrixLayout::GateUp,
    };
    let mut matrix = ops.matrix(&described, layout)?;
    for (part, bytes) in parts.iter().enumerate() {
        ops.write_rows(&mut matrix, part, 0, bytes)?;
    }
    Ok(matrix)
}

/// A table whose rows are given values: embedding from it is the only way in that the ops have.
fn table<O: Ops>(
    ops: &mut O,
    plain: Format,
    values: &[f32],
    cols: u32,
) -> Result<O::Matrix, OpsError> {
    let rows = values.len() as u32 / cols;
    matrix(ops, plain, &[&bytes_of(values)], rows, cols)
}

pub(super) async fn embed<O: Ops>(ops: &mut O, format: Format) -> Result<Vec<f32>, OpsError> {
    let rows = 16;
    let bytes = Random(1).weights(format, rows * COLS as usize);
    let table = matrix(ops, format, &[&bytes], rows as u32, COLS)?;
    let out = ops.activation("out", COLS, RowSet::All)?;
    ops.begin(Phase::Rows, &counted(rows, 0), 1);
    ops.embed(&table, 1.5, &out);
    ops.submit()?;
    ops.read_activation(&out).await
}

pub(super) async fn rms_norm<O: Ops>(ops: &mut O, plain: Format) -> Result<Vec<f32>, OpsError> {
    let rows = 7;
    let x = Random(2).values(rows * COLS as usize);
    let table = table(ops, plain, &x, COLS)?;
    let x = ops.activation("x", COLS, RowSet::All)?;
    let weight = ops.vector("weight", &Random(3).values(COLS as usize))?;
    let all = ops.activation("all", COLS, RowSet::All)?;
    let last = ops.activation("last", COLS, RowSet::Logits)?;
    ops.begin(Phase::Rows, &counted(rows, 0), 3);
    ops.embed(&table, 1.0, &x);
    ops.rms_norm(&x, &weight, EPS, &all);
    ops.rms_norm(&x, &weight, EPS, &last);
    ops.rms_norm_add(&all, &weight, EPS, &x);
    ops.submit()?;
    let mut values = ops.read_activation(&all).await?;
    values.extend(ops.read_activation(&last).await?);
    values.extend(ops.read_activation(&x).await?);
    Ok(values)
}

pub(super) async fn qk_norm<O: Ops>(ops: &mut O, plain: Format) -> Result<Vec<f32>, OpsError> {
    let rows = 5;
    let shape = attention_shape(None);
    let cols = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
    let values = Random(9).values(rows * cols as usize);
    let table = table(ops, plain, &values, cols)?;
    let qkv = ops.activation("qkv", cols, RowSet::All)?;
    let weight = Random(3).values(2 * shape.head_dim as usize);
    let weight = ops.vector("weight", &weight)?;
    ops.begin(Phase::Rows, &counted(rows, 0), 1);
    ops.embed(&table, 1.0, &qkv);
    ops.qk_norm(&qkv, &weight, EPS, &shape);
    ops.submit()?;
    ops.read_activation(&qkv).await
}

pub(super) async fn product<O: Ops>(
    ops: &mut O,
    product: Product,
    format: Format,
    plain: Format,
    rows: usize,
    phase: Phase,
) -> Result<Vec<f32>, OpsError> {
    let mut random = Random(4);
    let weights = (OUTPUTS * COLS) as usize;
    let parts = [
        random.weights(format, weights),
        random.weights(format, weights),
    ];
    let used = if let Product::Glu(_) = product { 2 } else { 1 };
    let parts: Vec<&[u8]> = parts[..used].iter().map(Vec::as_slice).collect();
    let w = matrix(ops, format, &parts, OUTPUTS, COLS)?;
    let x_table = table(ops, plain, &random.values(rows * COLS as usize), COLS)?;
    let y = random.values(rows * OUTPUTS as usize);
    let y_table = table(ops, plain, &y, OUTPUTS)?;
    let bias = ops.vector("bias", &Random(5).values(OUTPUTS as usize))?;
    let x = ops.activation("x", COLS, RowSet::All)?;
    let out = ops.activation("out", OUTPUTS, RowSet::All)?;
    ops.begin(phase, &counted(rows, 0), 1);
    ops.embed(&x_table, 1.0, &x);
    match product {
        Product::Plain => ops.matmul(&x, &w, None, &out),
        Product::Bias => ops.matmul(&x, &w, Some(&bias), &out),
        Product::Add => {
            ops.embed(&y_table, 1.0, &out);
            ops.matmul_add(&x, &w, &out);
        }
        Product::Glu(activation) => ops.matmul_glu(&x, &w, activation, &out),
    }
    ops.submit()?;
    ops.read_activation(&out).await
}

fn attention_shape(window: Option<u32>) -> AttentionShape {
    AttentionShape {
        heads: 9,
        kv_heads: 3,
        head_dim: 64,
        scale: 0.125,
        rope: RopeStyle::Interleaved,
        window,
    }
}

/// What attention gives in the last of several passes, `passes` rows each, one after another in the cache.
pub(super) async fn attention<O: Ops>(
    ops: &mut O,
    plain: Format,
    passes: &[usize],
    window: Option<u32>,
) -> Result<Vec<f32>, OpsError> {
    let shape = attention_shape(window);
    let cols = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
    let queries = shape.heads * shape.head_dim;
    let positions = passes.iter().sum::<usize>();
    let pairs = shape.head_dim / 2;
    let frequency = |i: u32| 10_000f64.powf(-f64::from(i) / f64::from(pairs));
    let rope = ops.rope_table(&RopeTableSpec {
        inv_freq: (0..pairs).map(frequency).collect(),
        magnitude: 1.0,
        positions: 256,
    })?;
    let kv = ops.kv_cache(KvShape {
        sequences: 1,
        context: 256,
        heads: shape.heads,
        kv_heads: shape.kv_heads,
        head_dim: shape.head_dim,
        window,
    })?;
    let x = Random(6).values(positions * cols as usize);
    let table = table(ops, plain, &x, cols)?;
    let qkv = ops.activation("qkv", cols, RowSet::All)?;
    let out = ops.activation("out", queries, RowSet::All)?;
    let mut first = 0;
    for &rows in passes {
        let phase = if rows > 16 {
            Phase::Prefill
        } else {
            Phase::Rows
        };
        let mut rows = counted(rows, first);
        for row in &mut rows {
            row.token = row.position;
        }
        first += rows.len() as Position;
        ops.begin(phase, &rows, 1);
        ops.embed(&table, 1.0, &qkv);
        ops.attention(&qkv, &rope, &kv, &shape, &out);
        ops.submit()?;
    }
    ops.read_activation(&out).await
}

/// Logits as a model gives them: embedded, and normalised, which brings rows into the logits' row set.
struct Head<O: Ops> {
    table: O::Matrix,
    all: O::Activation,
    logits: O::Activation,
    weight: O::Vector,
}

impl<O: Ops> Head<O> {
    fn new(ops: &mut O, plain: Format, logits: &[f32], vocab: u32) -> Result<Self, OpsError> {
        Ok(Self {
            table: table(ops, plain, logits, vocab)?,
            all: ops.activation("all", vocab, RowSet::All)?,
            logits: ops.activation("logits", vocab, RowSet::Logits)?,
            weight: ops.vector("weight", &vec![2.0; vocab as usize])?,
        })
    }

    fn record(&self, ops: &mut O) {
        ops.embed(&self.table, 1.0, &self.all);
        ops.rms_norm(&self.all, &self.weight, EPS, &self.logits);
    }
}

/// A choice as a number: tokens are below 2^24.
fn number(chosen: &Chosen) -> f32 {
    match *chosen {
        Chosen::Token(token) => token as f32,
        Chosen::NonFinite => -1.0,
    }
}

pub(super) async fn choose<O: Ops>(
    ops: &mut O,
    plain: Format,
    sampling: &Sampling,
) -> Result<Vec<f32>, OpsError> {
    let rows = 6;
    let mut logits = Random(7).logits(rows * VOCAB as usize);
    let at = |row: usize, token: u32| row * VOCAB as usize + token as usize;
    // Equal largest ones, across workgroups; and rows without an honest choice.
    for token in [63, 64, 2047, 2048, 4100] {
        logits[at(1, token)] = 40.0;
    }
    logits[at(4, 1)] = f32::NAN;
    logits[at(5, 4000)] = f32::INFINITY;
    let head = Head::new(ops, plain, &logits, VOCAB)?;
    let prompt: [TokenId; 4] = [3, 9, 9, 12];
    ops.set_sampling(0, sampling, &prompt, VOCAB)?;
    ops.begin(
        Phase::Rows,
        &counted(rows, prompt.len() as Position - 1),
        rows,
    );
    head.record(ops);
    ops.choose(&head.logits);
    ops.submit()?;
    let chosen = ops.read_chosen().await?;
    Ok(chosen.iter().map(number).collect())
}

pub(super) async fn logprobs<O: Ops>(ops: &mut O, plain: Format) -> Result<Vec<f32>, OpsError> {
    let rows = 3;
    let logits = Random(8).logits(rows * VOCAB as usize);
    let head = Head::new(ops, plain, &logits, VOCAB)?;
    ops.set_sampling(0, &Sampling::greedy(), &[0], VOCAB)?;
    ops.begin(Phase::Rows, &counted(rows, 0), rows);
    head.record(ops);
    ops.choose(&head.logits);
    ops.logprobs(&head.logits, 5);
    ops.submit()?;
    ops.read_chosen().await?;
    let rows = ops.read_logprobs().await?;
    let numbers = rows.iter().flat_map(|row| {
        let top = row.top.iter().map(|(_, logprob)| *logprob);
        [row.chosen].into_iter().chain(top).collect::<Vec<_>>()
    });
    Ok(numbers.collect())
}

/// Steps in flight of a model in which token t is followed by t + 1, and token 3 by token 1. What it says begins with an
/// n-gram that went on otherwise, so drafts are rejected; then with one that recurs, so they are accepted.
pub(super) async fn next_step<O: Ops>(ops: &mut O, plain: Format) -> Result<Vec<f32>, OpsError> {
    const STEPS: usize = 4;
    const DRAFTS: usize = 3;
    const CONTEXT: u32 = 64;
    const WORDS: u32 = 256;
    let mut logits = vec![0.0; 8 * WORDS as usize];
    for (token, row) in logits.chunks_exact_mut(WORDS as usize).enumerate() {
        row[if token == 3 { 1 } else { token + 1 }] = 9.0;
    }
    // What holds the history is allocated with it.
    ops.kv_cache(KvShape {
        sequences: 1,
        context: CONTEXT,
        heads: 1,
        kv_heads: 1,
        head_dim: 32,
        window: None,
    })?;
    let head = Head::new(ops, plain, &logits, WORDS)?;
    let lookup = NgramLookup {
        min: 2,
        max: 3,
        order: MatchOrder::Earliest,
    };
    let limits = StepLimits {
        tokens: CONTEXT,
        context: CONTEXT,
        stop_ids: Vec::new(),
    };
    let history: [TokenId; 5] = [2, 3, 7, 1, 2];
    let row = Row {
        token: 2,
        position: history.len() as Position - 1,
        sequence: 0,
    };
    ops.set_sampling(0, &Sampling::greedy(), &history, WORDS)?;
    ops.start_steps(0, &history, &limits, STEPS)?;
    for step in 0..STEPS {
        let last_position = row.position + (step * (DRAFTS + 1)) as Position;
        match step {
            0 => ops.begin(Phase::Rows, &[row], 1),
            _ => ops.begin_next(DRAFTS, last_position),
        }
        head.record(ops);
        ops.choose(&head.logits);
        ops.next_step(DRAFTS, Some(&lookup));
        ops.submit()?;
    }
    let mut numbers = Vec::new();
    for _ in 0..STEPS {
        let outcome = ops.read_step().await?;
        numbers.extend([outcome.drafted as f32, outcome.accepted as f32]);
        numbers.extend(outcome.chosen.iter().map(number));
    }
    Ok(numbers)
}
