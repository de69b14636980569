//! `CpuOps` that take their time and keep a record: every wait is pending once, so that a test can interleave and drop
//! requests within a step.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use foretoken_core::sampling::TokenLogprobs;
use foretoken_core::{
    AttentionShape, Chosen, DraftChoice, DraftStart, Drafted, GluActivation, KvShape, MatrixLayout,
    MatrixPart, NgramLookup, Ops, OpsError, Phase, Position, RopeTableSpec, Row, RowSet, Sampling,
    SequenceSlot, StepLimits, StepOutcome, TokenId,
};
use foretoken_reference::CpuOps;

/// A pass: its phase, the position of its first row, its rows.
pub type Pass = (Phase, u32, usize);

pub struct WatchedOps {
    inner: CpuOps,
    /// Passes since it was last emptied.
    pub passes: Rc<RefCell<Vec<Pass>>>,
    /// Whether a row's bits depend on the rows around it, as on a device with a careless compiler.
    careless: bool,
    /// A token whose rows have no honest logits.
    spoils: Option<TokenId>,
    spoilt: bool,
    /// How many KV caches are made before one is refused, and with what.
    refuses: Option<(usize, OpsError)>,
    rows: usize,
    /// Tokens that are chosen whatever the logits say, as long as there are some.
    pub script: Rc<RefCell<VecDeque<TokenId>>>,
}

impl WatchedOps {
    pub fn new() -> Self {
        Self {
            inner: CpuOps::with_threads(1),
            passes: Rc::default(),
            careless: false,
            spoils: None,
            spoilt: false,
            refuses: None,
            rows: 0,
            script: Rc::default(),
        }
    }

    /// Ops for which a pass with `token` ends in logits that are not finite.
    pub fn spoiling(token: TokenId) -> Self {
        Self {
            spoils: Some(token),
            ..Self::new()
        }
    }

    /// Ops that make so many KV caches and refuse the next with `error`.
    pub fn refusing(caches: usize, error: OpsError) -> Self {
        Self {
            refuses: Some((caches, error)),
            ..Self::new()
        }
    }

    /// Ops that fail the check of row invariance, padded or not.
    pub fn careless() -> Self {
        Self {
            careless: true,
            ..Self::new()
        }
    }
}

async fn pending_once() {
    let mut pended = false;
    poll_fn(|context| {
        if std::mem::replace(&mut pended, true) {
            Poll::Ready(())
        } else {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

impl Ops for WatchedOps {
    type Matrix = <CpuOps as Ops>::Matrix;
    type Vector = <CpuOps as Ops>::Vector;
    type Activation = <CpuOps as Ops>::Activation;
    type KvCache = <CpuOps as Ops>::KvCache;
    type RopeTable = <CpuOps as Ops>::RopeTable;
    type TokenMap = <CpuOps as Ops>::TokenMap;

    fn matrix(
        &mut self,
        parts: &[MatrixPart],
        layout: MatrixLayout,
    ) -> Result<Self::Matrix, OpsError> {
        self.inner.matrix(parts, layout)
    }
    fn write_rows(
        &mut self,
        matrix: &mut Self::Matrix,
        part: usize,
        first_row: u32,
        bytes: &[u8],
    ) -> Result<(), OpsError> {
        self.inner.write_rows(matrix, part, first_row, bytes)
    }
    fn vector(&mut self, name: &str, values: &[f32]) -> Result<Self::Vector, OpsError> {
        self.inner.vector(name, values)
    }
    fn activation(
        &mut self,
        name: &str,
        cols: u32,
        rows: RowSet,
    ) -> Result<Self::Activation, OpsError> {
        self.inner.activation(name, cols, rows)
    }
    fn kv_cache(&mut self, shape: KvShape) -> Result<Self::KvCache, OpsError> {
        match &mut self.refuses {
            Some((0, error)) => return Err(error.clone()),
            Some((left, _)) => *left -= 1,
            None => {}
        }
        self.inner.kv_cache(shape)
    }
    fn rope_table(&mut self, spec: &RopeTableSpec) -> Result<Self::RopeTable, OpsError> {
        self.inner.rope_table(spec)
    }
    fn token_map(&mut self, name: &str, tokens: &[TokenId]) -> Result<Self::TokenMap, OpsError> {
        self.inner.token_map(name, tokens)
    }
    fn start_draft(&mut self, start: &DraftStart) {
        self.inner.start_draft(start);
    }
    fn draft(
        &mut self,
        logits: &Self::Activation,
        choice: &DraftChoice,
        to_target: Option<&Self::TokenMap>,
    ) {
        self.inner.draft(logits, choice, to_target);
    }
    async fn read_drafted(&mut self) -> Result<Drafted, OpsError> {
        pending_once().await;
        self.inner.read_drafted().await
    }
    async fn flush(&mut self) -> Result<(), OpsError> {
        pending_once().await;
        self.inner.flush().await
    }
    fn set_sampling(
        &mut self,
        sequence: SequenceSlot,
        sampling: &Sampling,
        prompt: &[TokenId],
        vocab: u32,
    ) -> Result<(), OpsError> {
        self.inner.set_sampling(sequence, sampling, prompt, vocab)
    }
    fn start_steps(
        &mut self,
        sequence: SequenceSlot,
        tokens: &[TokenId],
        limits: &StepLimits,
        batch: usize,
    ) -> Result<(), OpsError> {
        self.inner.start_steps(sequence, tokens, limits, batch)
    }
    fn begin_next(&mut self, drafts: usize, last_position: Position) {
        self.rows = drafts + 1;
        let pass = (Phase::Rows, last_position, self.rows);
        self.passes.borrow_mut().push(pass);
        self.inner.begin_next(drafts, last_position)
    }
    fn next_step(&mut self, drafts: usize, lookup: Option<&NgramLookup>) {
        self.inner.next_step(drafts, lookup)
    }
    fn begin(&mut self, phase: Phase, rows: &[Row], logit_rows: usize) {
        self.rows = rows.len();
        self.spoilt = rows.iter().any(|row| Some(row.token) == self.spoils);
        let pass = (phase, rows[0].position, rows.len());
        self.passes.borrow_mut().push(pass);
        self.inner.begin(phase, rows, logit_rows)
    }
    fn embed(&mut self, table: &Self::Matrix, scale: f32, out: &Self::Activation) {
        self.inner.embed(table, scale, out)
    }
    fn rms_norm(
        &mut self,
        x: &Self::Activation,
        weight: &Self::Vector,
        eps: f32,
        out: &Self::Activation,
    ) {
        self.inner.rms_norm(x, weight, eps, out)
    }
    fn rms_norm_add(
        &mut self,
        x: &Self::Activation,
        weight: &Self::Vector,
        eps: f32,
        out: &Self::Activation,
    ) {
        self.inner.rms_norm_add(x, weight, eps, out)
    }
    fn qk_norm(
        &mut self,
        qkv: &Self::Activation,
        weight: &Self::Vector,
        eps: f32,
        shape: &AttentionShape,
    ) {
        self.inner.qk_norm(qkv, weight, eps, shape)
    }
    fn matmul(
        &mut self,
        x: &Self::Activation,
        w: &Self::Matrix,
        bias: Option<&Self::Vector>,
        out: &Self::Activation,
    ) {
        self.inner.matmul(x, w, bias, out)
    }
    fn matmul_add(&mut self, x: &Self::Activation, w: &Self::Matrix, out: &Self::Activation) {
        self.inner.matmul_add(x, w, out)
    }
    fn matmul_glu(
        &mut self,
        x: &Self::Activation,
        w: &Self::Matrix,
        activation: GluActivation,
        out: &Self::Activation,
    ) {
        self.inner.matmul_glu(x, w, activation, out)
    }
    fn attention(
        &mut self,
        qkv: &Self::Activation,
        rope: &Self::RopeTable,
        kv: &Self::KvCache,
        shape: &AttentionShape,
        out: &Self::Activation,
    ) {
        self.inner.attention(qkv, rope, kv, shape, out)
    }
    fn choose(&mut self, logits: &Self::Activation) {
        self.inner.choose(logits)
    }
    fn logprobs(&mut self, logits: &Self::Activation, top: u32) {
        self.inner.logprobs(logits, top)
    }
    fn submit(&mut self) -> Result<(), OpsError> {
        self.inner.submit()
    }
    async fn read_chosen(&mut self) -> Result<Vec<Chosen>, OpsError> {
        pending_once().await;
        let mut chosen = self.inner.read_chosen().await?;
        if let Some(chosen) = chosen.last_mut()
            && let Some(token) = self.script.borrow_mut().pop_front()
        {
            *chosen = Chosen::Token(token);
        }
        if self.spoilt {
            chosen.fill(Chosen::NonFinite);
        }
        Ok(chosen)
    }
    async fn read_step(&mut self) -> Result<StepOutcome, OpsError> {
        pending_once().await;
        self.inner.read_step().await
    }
    async fn read_logprobs(&mut self) -> Result<Vec<TokenLogprobs>, OpsError> {
        self.inner.read_logprobs().await
    }
    async fn read_activation(&mut self, x: &Self::Activation) -> Result<Vec<f32>, OpsError> {
        let mut values = self.inner.read_activation(x).await?;
        if self.careless && self.rows > 1 {
            let first = values.first_mut().expect("a pass has values");
            *first = f32::from_bits(first.to_bits() ^ 1);
        }
        Ok(values)
    }
}
