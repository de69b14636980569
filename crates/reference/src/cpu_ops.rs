//! [`CpuOps`].

use foretoken_core::sampling::TokenLogprobs;
use foretoken_core::{
    AttentionShape, Chooser, Chosen, DraftChoice, DraftStart, Drafted, GluActivation, HostDraft,
    HostSteps, KvShape, MatrixLayout, MatrixPart, NgramLookup, Ops, OpsError, Phase, Position,
    RopeTableSpec, Row, RowSet, Sampling, SequenceSlot, StepLimits, StepOutcome, TOKEN_ON_DEVICE,
    TokenId,
};

use crate::{
    CpuActivation, CpuKvCache, CpuMatrix, CpuRopeTable,
    ops::{attention, attention_rope, choose, embed, matmul, matmul_glu, qk_norm, rms_norm},
    parallel::available_threads,
    pass::Pass,
};

/// The op list on the CPU, in f32, at once.
#[derive(Debug)]
pub struct CpuOps {
    threads: usize,
    pass: Pass,
    chosen: Vec<Chosen>,
    logprobs: Vec<TokenLogprobs>,
    /// How tokens are chosen, by sequence.
    choosers: Vec<Chooser>,
    /// What [`TOKEN_ON_DEVICE`] stands for, by sequence.
    last_token: Vec<TokenId>,
    steps: HostSteps,
    draft: HostDraft,
    /// The rows of the next pass, where a step or a draft made them.
    next_rows: Vec<Row>,
}

impl CpuOps {
    /// Ops that use every core.
    pub fn new() -> Self {
        Self::with_threads(available_threads())
    }

    /// Ops that use `threads` threads (at least one; always one in a browser). Results do not depend on it.
    pub fn with_threads(threads: usize) -> Self {
        Self {
            threads: threads.max(1),
            pass: Pass::default(),
            chosen: Vec::new(),
            logprobs: Vec::new(),
            choosers: Vec::new(),
            last_token: Vec::new(),
            steps: HostSteps::default(),
            draft: HostDraft::default(),
            next_rows: Vec::new(),
        }
    }

    /// The tokens of the pass, with what [`TOKEN_ON_DEVICE`] stands for put in.
    fn tokens(&self) -> Vec<TokenId> {
        let token = |row: &Row| {
            if row.token != TOKEN_ON_DEVICE {
                return row.token;
            }
            // Token 0 before any choice, as on a device whose memory starts at zero.
            self.last_token
                .get(row.sequence as usize)
                .copied()
                .unwrap_or(0)
        };
        self.pass.rows().iter().map(token).collect()
    }

    /// Makes room for the state of `sequence`.
    fn reach(&mut self, sequence: SequenceSlot) {
        let len = sequence as usize + 1;
        if self.choosers.len() < len {
            self.choosers.resize(len, Chooser::default());
            self.last_token.resize(len, 0);
        }
    }

    /// Checks `x` and `out` of a product against `w` and returns the rows.
    fn check_product(
        &self,
        op: &str,
        x: &CpuActivation,
        w: &CpuMatrix,
        outputs: usize,
        out: &CpuActivation,
    ) -> usize {
        assert!(
            x.cols == w.cols && out.cols == outputs && x.rows == out.rows,
            "{op}: {} [{:?}, {}] by {} [{outputs}, {}] into {} [{:?}, {}]",
            x.name,
            x.rows,
            x.cols,
            w.name(),
            w.cols,
            out.name,
            out.rows,
            out.cols
        );
        self.pass.count(x.rows)
    }

    /// Asserts that `x` holds every row of the pass in `cols` columns.
    fn check_all_rows(op: &str, x: &CpuActivation, cols: usize) {
        assert!(
            x.rows == RowSet::All && x.cols == cols,
            "{op}: {} is [{:?}, {}], not [All, {cols}]",
            x.name,
            x.rows,
            x.cols
        );
    }
}

impl Default for CpuOps {
    fn default() -> Self {
        Self::new()
    }
}

/// Columns of q, k and v together.
fn qkv_cols(shape: &AttentionShape) -> usize {
    (shape.heads as usize + 2 * shape.kv_heads as usize) * shape.head_dim as usize
}

impl Ops for CpuOps {
    type Matrix = CpuMatrix;
    type Vector = Vec<f32>;
    type Activation = CpuActivation;
    type KvCache = CpuKvCache;
    type RopeTable = CpuRopeTable;
    type TokenMap = Vec<TokenId>;

    fn matrix(
        &mut self,
        parts: &[MatrixPart],
        layout: MatrixLayout,
    ) -> Result<CpuMatrix, OpsError> {
        CpuMatrix::new(parts, layout)
    }

    fn write_rows(
        &mut self,
        matrix: &mut CpuMatrix,
        part: usize,
        first_row: u32,
        bytes: &[u8],
    ) -> Result<(), OpsError> {
        matrix.parts[part].write_rows(first_row, bytes);
        Ok(())
    }

    fn vector(&mut self, _name: &str, values: &[f32]) -> Result<Vec<f32>, OpsError> {
        Ok(values.to_vec())
    }

    fn activation(
        &mut self,
        name: &str,
        cols: u32,
        rows: RowSet,
    ) -> Result<CpuActivation, OpsError> {
        CpuActivation::new(name, cols, rows)
    }

    fn kv_cache(&mut self, shape: KvShape) -> Result<CpuKvCache, OpsError> {
        CpuKvCache::new(shape)
    }

    fn rope_table(&mut self, spec: &RopeTableSpec) -> Result<CpuRopeTable, OpsError> {
        Ok(CpuRopeTable::new(spec))
    }

    fn token_map(&mut self, _name: &str, tokens: &[TokenId]) -> Result<Vec<TokenId>, OpsError> {
        Ok(tokens.to_vec())
    }

    async fn flush(&mut self) -> Result<(), OpsError> {
        Ok(())
    }

    fn set_sampling(
        &mut self,
        sequence: SequenceSlot,
        sampling: &Sampling,
        prompt: &[TokenId],
        _vocab: u32,
    ) -> Result<(), OpsError> {
        self.reach(sequence);
        self.choosers[sequence as usize] = Chooser::new(sampling.clone(), prompt);
        Ok(())
    }

    fn start_steps(
        &mut self,
        sequence: SequenceSlot,
        tokens: &[TokenId],
        limits: &StepLimits,
        _batch: usize,
    ) -> Result<(), OpsError> {
        self.steps.start(sequence, tokens, limits);
        Ok(())
    }

    fn start_draft(&mut self, start: &DraftStart) {
        self.draft.start(*start);
    }

    fn begin(&mut self, phase: Phase, rows: &[Row], logit_rows: usize) {
        self.steps.abandon();
        self.pass = Pass::new(phase, rows, logit_rows);
    }

    fn begin_next(&mut self, drafts: usize, last_position: Position) {
        let rows = &self.next_rows;
        assert!(
            rows.len() <= drafts + 1 && rows.iter().all(|row| row.position <= last_position),
            "begin_next: {rows:?} for {drafts} drafts up to position {last_position}"
        );
        self.pass = Pass::new(Phase::Rows, rows, rows.len());
    }

    fn embed(&mut self, table: &CpuMatrix, scale: f32, out: &CpuActivation) {
        Self::check_all_rows("embed", out, table.cols);
        embed::embed(
            table,
            &self.tokens(),
            scale,
            &mut out.write(self.pass.rows().len()),
        );
    }

    fn rms_norm(&mut self, x: &CpuActivation, weight: &Vec<f32>, eps: f32, out: &CpuActivation) {
        let narrows = x.rows == RowSet::All && out.rows == RowSet::Logits;
        assert!(
            x.cols == weight.len() && out.cols == x.cols && (x.rows == out.rows || narrows),
            "rms_norm: {} [{:?}, {}] by a weight of {} into {} [{:?}, {}]",
            x.name,
            x.rows,
            x.cols,
            weight.len(),
            out.name,
            out.rows,
            out.cols
        );
        let (rows, out_rows) = (self.pass.count(x.rows), self.pass.count(out.rows));
        let x = x.read(rows);
        rms_norm::rms_norm(
            &x[(rows - out_rows) * out.cols..],
            weight,
            eps,
            &mut out.write(out_rows),
        );
    }

    fn rms_norm_add(
        &mut self,
        x: &CpuActivation,
        weight: &Vec<f32>,
        eps: f32,
        out: &CpuActivation,
    ) {
        Self::check_all_rows("rms_norm_add", x, weight.len());
        Self::check_all_rows("rms_norm_add", out, weight.len());
        let rows = self.pass.rows().len();
        let mut normed = vec![0.0; rows * x.cols];
        rms_norm::rms_norm(&x.read(rows), weight, eps, &mut normed);
        for (out, normed) in out.write(rows).iter_mut().zip(normed) {
            *out += normed;
        }
    }

    fn qk_norm(
        &mut self,
        qkv: &CpuActivation,
        weight: &Vec<f32>,
        eps: f32,
        shape: &AttentionShape,
    ) {
        Self::check_all_rows("qk_norm", qkv, qkv_cols(shape));
        assert_eq!(
            weight.len(),
            2 * shape.head_dim as usize,
            "qk_norm: a weight for q and one for k"
        );
        let rows = self.pass.rows().len();
        qk_norm::qk_norm(&mut qkv.write(rows), weight, eps, shape);
    }

    fn matmul(
        &mut self,
        x: &CpuActivation,
        w: &CpuMatrix,
        bias: Option<&Vec<f32>>,
        out: &CpuActivation,
    ) {
        assert!(
            w.layout == MatrixLayout::Stacked,
            "matmul: {} is gate and up",
            w.name()
        );
        let rows = self.check_product("matmul", x, w, w.rows(), out);
        assert!(
            bias.is_none_or(|bias| bias.len() == out.cols),
            "matmul: a bias of {} for {} outputs of {}",
            bias.map_or(0, Vec::len),
            out.cols,
            w.name()
        );
        let mut y = out.write(rows);
        matmul::matmul(&x.read(rows), w, self.threads, |row, output, value| {
            y[row * out.cols + output] = value + bias.map_or(0.0, |bias| bias[output]);
        });
    }

    fn matmul_add(&mut self, x: &CpuActivation, w: &CpuMatrix, out: &CpuActivation) {
        assert!(
            w.layout == MatrixLayout::Stacked,
            "matmul_add: {} is gate and up",
            w.name()
        );
        let rows = self.check_product("matmul_add", x, w, w.rows(), out);
        let mut y = out.write(rows);
        matmul::matmul(&x.read(rows), w, self.threads, |row, output, value| {
            y[row * out.cols + output] += value;
        });
    }

    fn matmul_glu(
        &mut self,
        x: &CpuActivation,
        w: &CpuMatrix,
        activation: GluActivation,
        out: &CpuActivation,
    ) {
        let rows = self.check_product("matmul_glu", x, w, w.parts[0].rows, out);
        matmul_glu::matmul_glu(
            &x.read(rows),
            w,
            activation,
            self.threads,
            &mut out.write(rows),
        );
    }

    fn attention(
        &mut self,
        qkv: &CpuActivation,
        rope: &CpuRopeTable,
        kv: &CpuKvCache,
        shape: &AttentionShape,
        out: &CpuActivation,
    ) {
        Self::check_all_rows("attention", qkv, qkv_cols(shape));
        Self::check_all_rows(
            "attention",
            out,
            shape.heads as usize * shape.head_dim as usize,
        );
        let rows = self.pass.rows();
        attention_rope::attention_rope(&mut qkv.write(rows.len()), rows, rope, kv, shape);
        attention::attention(
            &qkv.read(rows.len()),
            rows,
            kv,
            shape,
            &mut out.write(rows.len()),
        );
    }

    fn choose(&mut self, logits: &CpuActivation) {
        assert!(
            logits.rows == RowSet::Logits,
            "choose: {} holds rows without logits",
            logits.name
        );
        let rows = self.pass.logit_rows().to_vec();
        if let Some(largest) = rows.iter().map(|row| row.sequence).max() {
            self.reach(largest);
        }
        let logits = logits.read(rows.len());
        self.chosen = choose::choose(&mut self.choosers, &rows, &logits, &mut self.last_token);
    }

    fn next_step(&mut self, drafts: usize, lookup: Option<&NgramLookup>) {
        let rows = self.pass.logit_rows();
        self.steps.advance(rows, &self.chosen, drafts, lookup);
        self.next_rows = self.steps.rows().to_vec();
    }

    fn draft(
        &mut self,
        logits: &CpuActivation,
        choice: &DraftChoice,
        to_target: Option<&Vec<TokenId>>,
    ) {
        let rows = self.pass.logit_rows();
        assert!(
            logits.rows == RowSet::Logits && rows.len() == 1,
            "draft: {} with {} logit rows",
            logits.name,
            rows.len()
        );
        let row = rows[0];
        self.reach(row.sequence);
        let values = logits.read(1);
        let chooser = &self.choosers[row.sequence as usize];
        let to_target = to_target.map(Vec::as_slice);
        self.draft.choose(chooser, row, &values, choice, to_target);
        self.next_rows = self.draft.rows().to_vec();
    }

    fn logprobs(&mut self, logits: &CpuActivation, top: u32) {
        let values = logits.read(self.chosen.len());
        self.logprobs = choose::logprobs(&self.chosen, &values, logits.cols, top);
    }

    fn submit(&mut self) -> Result<(), OpsError> {
        Ok(())
    }

    async fn read_chosen(&mut self) -> Result<Vec<Chosen>, OpsError> {
        Ok(self.chosen.clone())
    }

    async fn read_drafted(&mut self) -> Result<Drafted, OpsError> {
        Ok(self.draft.drafted(&self.chosen))
    }

    async fn read_step(&mut self) -> Result<StepOutcome, OpsError> {
        Ok(self.steps.pop().expect("a step that was not read"))
    }

    async fn read_logprobs(&mut self) -> Result<Vec<TokenLogprobs>, OpsError> {
        Ok(self.logprobs.clone())
    }

    async fn read_activation(&mut self, x: &CpuActivation) -> Result<Vec<f32>, OpsError> {
        Ok(x.read(self.pass.count(x.rows)).to_vec())
    }
}

#[cfg(test)]
mod tests;
