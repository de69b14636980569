//! [`GpuOps`]: the ops of `foretoken-core` as dispatches.

use foretoken_core::sampling::TokenLogprobs;
use foretoken_core::{
    AttentionShape, Chosen, DraftChoice, DraftStart, Drafted, GluActivation, KvShape,
    MAX_PREFILL_ROWS, MAX_VERIFY_ROWS, MatrixLayout, MatrixPart, NgramLookup, Ops, OpsError, Phase,
    Position, RopeTableSpec, Row, RowSet, Sampling, SequenceSlot, StepLimits, StepOutcome, TokenId,
};

use crate::composer::{Composed, Overrides, Target};
use crate::counters::Counters;
use crate::device::{AdapterReport, Device};
use crate::matmul_shape::MatmulShape;
use crate::matrix::GpuMatrix;
use crate::ops::attention;
use crate::ops::choose::{MAX_SEQUENCES, Needs, SAMPLING_BYTES};
use crate::ops::draft::{DRAFT_START_BYTES, DRAFTED_BYTES, drafted, start_words};
use crate::ops::logprobs::{self, LOGPROBS_BYTES};
use crate::ops::next_step::{LIMIT_BYTES, OUTCOME_BYTES, limit_words};
use crate::pace::Pace;
use crate::planned::{Plan, PlannedBytes};
use crate::recording::{Buffer, Copy, Profile, Recorder, UNIFORM_BYTES};
use crate::scratch::Scratch;
use crate::steps_in_flight::StepsInFlight;
use crate::tier::Tier;

/// How to open a device.
#[derive(Debug, Clone, Default)]
pub struct GpuOptions {
    /// Index or part of the name of an adapter; absent: the fastest.
    pub device: Option<String>,
    /// Hold the engine to fewer features than the device has; absent: all it has.
    pub tier: Option<Tier>,
    /// Shader files that stand in for the built-in ones, by path below `shaders/`.
    pub overrides: Overrides,
    /// Matmul kernels of another shape than the device's class takes.
    pub matmul: Option<MatmulShape>,
    /// Split tensors at fewer bytes than the device binds.
    pub max_binding_bytes: Option<u64>,
}

/// f32 parameters on the device.
#[derive(Debug)]
pub struct GpuVector {
    pub(crate) buffer: Buffer,
    pub(crate) len: u32,
}

/// f32 `[rows, cols]` scratch on the device.
#[derive(Debug)]
pub struct GpuActivation {
    pub(crate) buffer: Buffer,
    pub(crate) cols: u32,
    pub(crate) rows: RowSet,
}

/// Keys and values of one layer, `[sequences, kv_heads, capacity, head_dim]` each ([`KvShape::capacity`]).
#[derive(Debug)]
pub struct GpuKvCache {
    pub(crate) keys: Buffer,
    pub(crate) values: Buffer,
    pub(crate) shape: KvShape,
}

/// cos and sin, `[positions, pairs]`.
#[derive(Debug)]
pub struct GpuRopeTable {
    pub(crate) buffer: Buffer,
    pub(crate) pairs: u32,
}

/// Token ids by those of another vocabulary.
#[derive(Debug)]
pub struct GpuTokenMap {
    pub(crate) buffer: Buffer,
    pub(crate) len: u32,
}

/// The pass being recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass {
    pub(crate) phase: Phase,
    pub(crate) rows: u32,
    pub(crate) logit_rows: u32,
    /// The positions of its rows.
    pub(crate) positions: [u32; MAX_PREFILL_ROWS],
    /// The largest of them: bounds attention's spans.
    pub(crate) last_position: u32,
    /// Sequences of its logit rows, a bit each.
    pub(crate) logit_sequences: u32,
    /// Whether [`Ops::choose`] was recorded.
    chose: bool,
    /// Whether log-probabilities were recorded, and how many alternatives.
    logprobs: Option<u32>,
    /// Whether it verifies what [`Ops::draft`] made.
    drafted: bool,
    /// Whether [`Ops::next_step`] was recorded.
    goes_on: bool,
}

impl Pass {
    pub(crate) fn rows_of(&self, set: RowSet) -> u32 {
        match set {
            RowSet::All => self.rows,
            RowSet::Logits => self.logit_rows,
        }
    }
}

/// As the kernels number it (`lib/step.wgsl`).
pub(crate) fn row_set_index(set: RowSet) -> u32 {
    match set {
        RowSet::All => 0,
        RowSet::Logits => 1,
    }
}

/// Bytes of `chosen` in `SequenceState`: all that a greedy step maps.
const CHOSEN_BYTES: u64 = 4 * MAX_VERIFY_ROWS as u64;
/// Where `lib/sequence_state.wgsl` has the outcome of a step in flight, and the length of the history.
const OUTCOME_AT: u64 = DRAFTED_BYTES + 4 * 16;
const HISTORY_LEN_AT: u64 = OUTCOME_AT + OUTCOME_BYTES;
const SEQUENCE_STATE_BYTES: u64 = HISTORY_LEN_AT + 12;
/// `NON_FINITE` of `lib/sequence_state.wgsl`.
const NON_FINITE: u32 = u32::MAX;

/// What a word of `chosen` says.
pub(crate) fn chosen_token(word: &u32) -> Chosen {
    match *word {
        NON_FINITE => Chosen::NonFinite,
        token => Chosen::Token(token),
    }
}

/// Header and entries of the row table, in words.
const STEP_WORDS: usize = 4 + 4 * MAX_PREFILL_ROWS;
/// Of them, those of a pass of the row family.
const NEXT_ROWS_BYTES: u64 = 4 * (4 + 4 * MAX_VERIFY_ROWS as u64);

/// The ops on a WebGPU device.
pub struct GpuOps {
    pub(crate) recorder: Recorder,
    pub(crate) pass: Pass,
    pub(crate) state: Buffer,
    pub(crate) pad_rows: bool,
    pub(crate) shape: MatmulShape,
    /// Scratch shared by all layers, grown at load.
    pub(crate) attention_parts: Option<Buffer>,
    pub(crate) choose_parts: Option<Buffer>,
    /// `Sampling` of every sequence, and what each needs of the kernels.
    pub(crate) sampling: Buffer,
    pub(crate) needs: [Needs; MAX_SEQUENCES],
    /// Biases, flags and counts, `[sequences, vocab]`: only where some request asked for them.
    pub(crate) token_rules: Option<Buffer>,
    /// Sequences that the KV caches hold.
    pub(crate) sequences: u32,
    pub(crate) logprobs: Buffer,
    /// Committed tokens, `[context]`, of the sequence whose steps are in flight; allocated with the KV cache.
    pub(crate) history: Option<Buffer>,
    pub(crate) step_limits: Buffer,
    /// The row table of the next pass.
    pub(crate) next_rows: Buffer,
    /// What the next draft continues.
    pub(crate) draft_start: Buffer,
    /// Scratch that was replaced by a larger buffer of which it is not known yet whether there was memory for it.
    pub(crate) outgrown: Vec<(Scratch, Option<Buffer>)>,
    steps: StepsInFlight,
    pace: Pace,
    readback: wgpu::Buffer,
    logprobs_readback: wgpu::Buffer,
}

impl GpuOps {
    /// Opens a device.
    pub async fn new(options: GpuOptions) -> Result<Self, OpsError> {
        let mut device = Device::open(options.device.as_deref(), options.tier).await?;
        if let Some(bytes) = options.max_binding_bytes {
            device.max_binding_bytes = device.max_binding_bytes.min(bytes);
        }
        let shape = options
            .matmul
            .unwrap_or_else(|| MatmulShape::of(&device.report, device.tier));
        shape
            .check(device.tier)
            .map_err(|reason| OpsError::Unavailable { reason })?;
        Self::on(device, options.overrides, shape)
    }

    /// Ops of their own on a device that is open.
    pub(crate) fn on(
        device: Device,
        overrides: Overrides,
        shape: MatmulShape,
    ) -> Result<Self, OpsError> {
        let mut recorder = Recorder::new(device, overrides, 4 * STEP_WORDS as u64);
        let state = recorder.buffer("sequence state", SEQUENCE_STATE_BYTES)?;
        let sampling = recorder.buffer("sampling", SAMPLING_BYTES)?;
        let logprobs = recorder.buffer("log-probabilities", LOGPROBS_BYTES)?;
        let step_limits = recorder.buffer("step limits", LIMIT_BYTES)?;
        let next_rows = recorder.buffer("next rows", 4 * STEP_WORDS as u64)?;
        let draft_start = recorder.buffer("draft start", DRAFT_START_BYTES)?;
        let steps = StepsInFlight::new(&mut recorder);
        let readback = recorder.readback_buffer(DRAFTED_BYTES);
        let logprobs_readback = recorder.readback_buffer(LOGPROBS_BYTES);
        let pass = Pass {
            phase: Phase::Rows,
            rows: 0,
            logit_rows: 0,
            positions: [0; MAX_PREFILL_ROWS],
            last_position: 0,
            logit_sequences: 0,
            chose: false,
            logprobs: None,
            drafted: false,
            goes_on: false,
        };
        Ok(Self {
            recorder,
            pass,
            state,
            pad_rows: false,
            shape,
            attention_parts: None,
            choose_parts: None,
            sampling,
            needs: [Needs::default(); MAX_SEQUENCES],
            token_rules: None,
            sequences: 1,
            logprobs,
            history: None,
            step_limits,
            next_rows,
            draft_start,
            outgrown: Vec::new(),
            steps,
            pace: Pace::default(),
            readback,
            logprobs_readback,
        })
    }

    /// The adapter it runs on.
    pub fn adapter(&self) -> &AdapterReport {
        &self.recorder.gpu.report
    }

    /// The tier it runs.
    pub fn tier(&self) -> Tier {
        self.recorder.gpu.tier
    }

    /// The shape of its matmul kernels.
    pub fn matmul_shape(&self) -> MatmulShape {
        self.shape
    }

    /// The browser's device. Whoever destroys it gives back all of its memory at once; every wait then ends with
    /// [`OpsError::DeviceLost`].
    #[cfg(target_arch = "wasm32")]
    pub fn browser_device(&self) -> js_sys::Object {
        self.recorder.gpu.lease.device().clone()
    }

    /// What the recording layer did so far.
    pub fn counters(&self) -> Counters {
        self.recorder.counters
    }

    /// Switches planning on or off. While it is on, every allocation is held against the device's limits as ever, but none is
    /// made and nothing is written: a model can be loaded without its weights, to see whether it would fit. What was loaded
    /// so must be dropped and cannot be run.
    pub fn set_planning(&mut self, on: bool) {
        if on {
            self.recorder.plan = Plan::default();
        }
        self.recorder.plan.on = on;
    }

    /// What was asked for since planning was switched on, with what these ops hold from the start: the bytes that the device would
    /// hold after a load of it.
    pub fn planned(&self) -> PlannedBytes {
        self.recorder
            .plan
            .bytes(self.recorder.counters.device_bytes)
    }

    /// Bytes the driver's allocator lends to buffers of this device, those of other owners included; `None` where it
    /// does not tell (in a browser, on Metal).
    pub fn allocated_bytes(&self) -> Option<u64> {
        let report = self.recorder.gpu.device.generate_allocator_report()?;
        Some(report.total_allocated_bytes)
    }

    /// Starts (or stops) timing every dispatch by itself; steps become slow.
    pub fn set_profiling(&mut self, on: bool) {
        self.recorder.set_profiling(on);
    }

    /// What dispatches took since profiling started, by kernel.
    pub fn profile(&self) -> Profile {
        self.recorder.profile().cloned().unwrap_or_default()
    }

    /// The composed WGSL of every pipeline made so far, by label.
    pub fn shaders(&self, target: Target) -> Vec<(String, Composed)> {
        let none = Overrides::new();
        self.recorder
            .kernels()
            .map(|kernel| (kernel.label(), kernel.compose(target, &none)))
            .collect()
    }

    /// Bytes of a number in the KV cache.
    pub(crate) fn kv_scalar_bytes(&self) -> u64 {
        if self.tier().f16 { 2 } else { 4 }
    }
}

impl Ops for GpuOps {
    type Matrix = GpuMatrix;
    type Vector = GpuVector;
    type Activation = GpuActivation;
    type KvCache = GpuKvCache;
    type RopeTable = GpuRopeTable;
    type TokenMap = GpuTokenMap;

    fn matrix(
        &mut self,
        parts: &[MatrixPart],
        layout: MatrixLayout,
    ) -> Result<GpuMatrix, OpsError> {
        GpuMatrix::new(&mut self.recorder, parts, layout)
    }

    fn write_rows(
        &mut self,
        matrix: &mut GpuMatrix,
        part: usize,
        first_row: u32,
        bytes: &[u8],
    ) -> Result<(), OpsError> {
        matrix.write_rows(&mut self.recorder, part, first_row, bytes);
        self.recorder.gpu.check()
    }

    fn vector(&mut self, name: &str, values: &[f32]) -> Result<GpuVector, OpsError> {
        let before = self.recorder.plan.all;
        let buffer = self.recorder.buffer(name, 4 * values.len() as u64)?;
        self.recorder.plan.weights += self.recorder.plan.all - before;
        self.recorder
            .write(&buffer, 0, bytemuck::cast_slice(values));
        Ok(GpuVector {
            buffer,
            len: u32::try_from(values.len()).expect("vectors have u32 lengths"),
        })
    }

    fn activation(
        &mut self,
        name: &str,
        cols: u32,
        rows: RowSet,
    ) -> Result<GpuActivation, OpsError> {
        let most = match rows {
            RowSet::All => MAX_PREFILL_ROWS,
            RowSet::Logits => MAX_VERIFY_ROWS,
        };
        // A uniform binding is of one size, wherever it begins.
        let buffer = self
            .recorder
            .buffer(name, 4 * u64::from(cols) * most as u64 + UNIFORM_BYTES)?;
        if rows == RowSet::Logits {
            let bytes = crate::ops::choose::part_bytes(cols);
            self.grow(Scratch::Choose, bytes)?;
        }
        Ok(GpuActivation { buffer, cols, rows })
    }

    fn kv_cache(&mut self, shape: KvShape) -> Result<GpuKvCache, OpsError> {
        attention::check_heads(&shape)?;
        let scalar = self.kv_scalar_bytes();
        let elements = u64::from(shape.sequences)
            * u64::from(shape.kv_heads)
            * u64::from(shape.capacity())
            * u64::from(shape.head_dim);
        self.sequences = self.sequences.max(shape.sequences);
        let bytes = attention::part_bytes(shape.heads, shape.head_dim, shape.context);
        self.grow(Scratch::Attention, bytes)?;
        self.grow(Scratch::History, 4 * u64::from(shape.context))?;
        let before = self.recorder.plan.all;
        let keys = self.recorder.buffer("keys", elements * scalar)?;
        let values = self.recorder.buffer("values", elements * scalar)?;
        if self.recorder.plan.on {
            let plan = &mut self.recorder.plan;
            plan.kv += plan.all - before;
            plan.kv_numbers += 2 * elements;
        }
        Ok(GpuKvCache {
            keys,
            values,
            shape,
        })
    }

    fn rope_table(&mut self, spec: &RopeTableSpec) -> Result<GpuRopeTable, OpsError> {
        let numbers = 2 * spec.inv_freq.len() as u64 * u64::from(spec.positions);
        let buffer = self.recorder.buffer("rope table", 4 * numbers)?;
        let pairs = u32::try_from(spec.inv_freq.len()).expect("few pairs");
        if self.recorder.plan.on {
            return Ok(GpuRopeTable { buffer, pairs });
        }
        let mut table = Vec::with_capacity(numbers as usize);
        for position in 0..spec.positions {
            for frequency in &spec.inv_freq {
                let (sin, cos) = (f64::from(position) * frequency).sin_cos();
                table.extend([(cos * spec.magnitude) as f32, (sin * spec.magnitude) as f32]);
            }
        }
        self.recorder
            .write(&buffer, 0, bytemuck::cast_slice(&table));
        Ok(GpuRopeTable { buffer, pairs })
    }

    fn token_map(&mut self, name: &str, tokens: &[TokenId]) -> Result<GpuTokenMap, OpsError> {
        let buffer = self.recorder.buffer(name, 4 * tokens.len() as u64)?;
        self.recorder
            .write(&buffer, 0, bytemuck::cast_slice(tokens));
        Ok(GpuTokenMap {
            buffer,
            len: u32::try_from(tokens.len()).expect("a vocabulary has u32 ids"),
        })
    }

    async fn flush(&mut self) -> Result<(), OpsError> {
        self.recorder.flush().await?;
        self.pace.waited();
        self.outgrown.clear();
        Ok(())
    }

    fn pad_rows(&mut self, on: bool) {
        self.pad_rows = on;
    }

    fn forget_failures(&mut self) {
        self.restore_outgrown();
        self.recorder.forget_bind_groups();
        self.recorder.gpu.forget();
    }

    fn discard(&mut self) {
        self.recorder.discard();
    }

    fn set_sampling(
        &mut self,
        sequence: SequenceSlot,
        sampling: &Sampling,
        prompt: &[TokenId],
        vocab: u32,
    ) -> Result<(), OpsError> {
        // A request begins: what the one before it left is nobody's.
        self.pace.abandoned();
        self.write_sampling(sequence, sampling, prompt, vocab)
    }

    fn start_steps(
        &mut self,
        sequence: SequenceSlot,
        tokens: &[TokenId],
        limits: &StepLimits,
        batch: usize,
    ) -> Result<(), OpsError> {
        self.steps.start(batch);
        let history = self.history.clone().expect("allocated with the KV cache");
        let bytes = 4 * tokens.len() as u64;
        assert!(bytes <= history.raw.size(), "{} tokens", tokens.len());
        let words = limit_words(sequence, limits);
        let len = u32::try_from(tokens.len()).expect("a sequence fits its context");
        let (state, step_limits) = (self.state.clone(), self.step_limits.clone());
        let recorder = &mut self.recorder;
        recorder.write(&history, 0, bytemuck::cast_slice(tokens));
        recorder.write(&step_limits, 0, bytemuck::cast_slice(&words));
        recorder.write(&state, HISTORY_LEN_AT, bytemuck::cast_slice(&[len, 0]));
        recorder.gpu.check()
    }

    fn start_draft(&mut self, start: &DraftStart) {
        let buffer = self.draft_start.clone();
        let words = start_words(start);
        self.recorder
            .write(&buffer, 0, bytemuck::cast_slice(&words));
    }

    fn begin(&mut self, phase: Phase, rows: &[Row], logit_rows: usize) {
        assert!(
            (1..=phase.max_rows()).contains(&rows.len()),
            "{phase:?} pass of {} rows",
            rows.len()
        );
        assert!(
            logit_rows <= rows.len().min(MAX_VERIFY_ROWS),
            "{logit_rows} logit rows"
        );
        let mut words = [0; STEP_WORDS];
        words[0] = rows.len() as u32;
        words[1] = logit_rows as u32;
        words[2] = (rows.len() - logit_rows) as u32;
        for (entry, row) in words[4..].chunks_exact_mut(4).zip(rows) {
            entry.copy_from_slice(&[row.token, row.position, row.sequence, 0]);
        }
        self.steps.abandon();
        let mut positions = [0; MAX_PREFILL_ROWS];
        for (position, row) in positions.iter_mut().zip(rows) {
            *position = row.position;
        }
        let used = 4 + 4 * rows.len();
        let step = self.recorder.step.clone();
        self.recorder
            .write(&step, 0, bytemuck::cast_slice(&words[..used]));
        self.pass = Pass {
            phase,
            rows: words[0],
            logit_rows: words[1],
            positions,
            last_position: rows.iter().map(|row| row.position).max().unwrap_or(0),
            logit_sequences: rows[rows.len() - logit_rows..].iter().fold(0, |set, row| {
                set | 1u32.checked_shl(row.sequence).unwrap_or(0)
            }),
            chose: false,
            logprobs: None,
            drafted: false,
            goes_on: false,
        };
    }

    fn begin_next(&mut self, drafts: usize, last_position: Position) {
        let rows = drafts as u32 + 1;
        assert!(drafts < MAX_VERIFY_ROWS, "begin_next: {drafts} drafts");
        let step = self.recorder.step.raw.clone();
        let next = self.next_rows.raw.clone();
        self.recorder.copy(next, step, NEXT_ROWS_BYTES);
        // At most these: the device knows better, and the counters count what was recorded for.
        let mut positions = [0; MAX_PREFILL_ROWS];
        for (position, after) in positions[..=drafts].iter_mut().zip((0..rows).rev()) {
            *position = last_position.saturating_sub(after);
        }
        self.pass = Pass {
            positions,
            phase: Phase::Rows,
            rows,
            logit_rows: rows,
            last_position,
            drafted: self.pass.drafted,
            chose: false,
            logprobs: None,
            goes_on: false,
            // One sequence has steps in flight: that of the passes before.
            logit_sequences: self.pass.logit_sequences,
        };
    }

    fn embed(&mut self, table: &GpuMatrix, scale: f32, out: &GpuActivation) {
        self.record_embed(table, scale, out);
    }

    fn rms_norm(&mut self, x: &GpuActivation, weight: &GpuVector, eps: f32, out: &GpuActivation) {
        self.record_rms_norm(x, weight, eps, out);
    }

    fn rms_norm_add(
        &mut self,
        x: &GpuActivation,
        weight: &GpuVector,
        eps: f32,
        out: &GpuActivation,
    ) {
        self.record_rms_norm_add(x, weight, eps, out);
    }

    fn qk_norm(
        &mut self,
        qkv: &GpuActivation,
        weight: &GpuVector,
        eps: f32,
        shape: &AttentionShape,
    ) {
        self.record_qk_norm(qkv, weight, eps, shape);
    }

    fn matmul(
        &mut self,
        x: &GpuActivation,
        w: &GpuMatrix,
        bias: Option<&GpuVector>,
        out: &GpuActivation,
    ) {
        self.record_matmul(x, w, bias, out);
    }

    fn matmul_add(&mut self, x: &GpuActivation, w: &GpuMatrix, out: &GpuActivation) {
        self.record_matmul_add(x, w, out);
    }

    fn matmul_glu(
        &mut self,
        x: &GpuActivation,
        w: &GpuMatrix,
        activation: GluActivation,
        out: &GpuActivation,
    ) {
        self.record_matmul_glu(x, w, activation, out);
    }

    fn attention(
        &mut self,
        qkv: &GpuActivation,
        rope: &GpuRopeTable,
        kv: &GpuKvCache,
        shape: &AttentionShape,
        out: &GpuActivation,
    ) {
        self.record_attention(qkv, rope, kv, shape, out);
    }

    fn choose(&mut self, logits: &GpuActivation) {
        self.record_choose(logits);
        self.pass.chose = true;
    }

    fn next_step(&mut self, drafts: usize, lookup: Option<&NgramLookup>) {
        assert!(self.pass.chose, "next_step follows choose");
        assert!(drafts < MAX_VERIFY_ROWS, "next_step: {drafts} drafts");
        self.record_next_step(drafts, lookup);
        self.pass.goes_on = true;
    }

    fn draft(
        &mut self,
        logits: &GpuActivation,
        choice: &DraftChoice,
        to_target: Option<&GpuTokenMap>,
    ) {
        self.record_draft(logits, choice, to_target);
        self.pass.drafted = true;
    }

    fn logprobs(&mut self, logits: &GpuActivation, top: u32) {
        assert!(self.pass.chose, "logprobs follow choose");
        self.record_logprobs(logits, top);
        self.pass.logprobs = Some(top);
    }

    fn submit(&mut self) -> Result<(), OpsError> {
        let pass = self.pass;
        let pieces = self.pace.pieces(pass.phase, pass.rows, pass.drafted);
        if pass.goes_on {
            let (buffer, at) = self.steps.place();
            let outcome = Copy {
                from: (&self.state.raw, OUTCOME_AT),
                to: (&buffer, at),
                bytes: OUTCOME_BYTES,
            };
            let submission = self.recorder.submit(pieces, &[outcome])?;
            self.steps.submitted(&self.recorder, submission);
            return Ok(());
        }
        self.pace.submitted(pass.phase, pass.rows, pass.drafted);
        let chosen_bytes = match pass.drafted {
            true => DRAFTED_BYTES,
            false => CHOSEN_BYTES,
        };
        let copies = [
            Copy::new(&self.state, &self.readback, chosen_bytes),
            Copy::new(&self.logprobs, &self.logprobs_readback, LOGPROBS_BYTES),
        ];
        let wanted = usize::from(pass.chose) + usize::from(pass.logprobs.is_some());
        self.recorder.submit(pieces, &copies[..wanted])?;
        Ok(())
    }

    async fn read_chosen(&mut self) -> Result<Vec<Chosen>, OpsError> {
        assert!(self.pass.chose, "read_chosen follows choose and submit");
        let words = self.recorder.read(&self.readback, CHOSEN_BYTES).await?;
        self.pace.waited();
        self.outgrown.clear();
        Ok(words
            .iter()
            .take(self.pass.logit_rows as usize)
            .map(chosen_token)
            .collect())
    }

    async fn read_drafted(&mut self) -> Result<Drafted, OpsError> {
        assert!(
            self.pass.chose && self.pass.drafted,
            "read_drafted follows draft, choose and submit"
        );
        let words = self.recorder.read(&self.readback, DRAFTED_BYTES).await?;
        self.pace.waited();
        Ok(drafted(&words))
    }

    async fn read_step(&mut self) -> Result<StepOutcome, OpsError> {
        self.recorder.made().await?;
        self.steps.next(&mut self.recorder).await
    }

    async fn read_logprobs(&mut self) -> Result<Vec<TokenLogprobs>, OpsError> {
        let top = self
            .pass
            .logprobs
            .expect("read_logprobs follows logprobs and submit");
        let words = self
            .recorder
            .read(&self.logprobs_readback, LOGPROBS_BYTES)
            .await?;
        Ok(logprobs::parse(
            &words,
            self.pass.logit_rows as usize,
            top as usize,
        ))
    }

    async fn read_activation(&mut self, x: &GpuActivation) -> Result<Vec<f32>, OpsError> {
        let bytes = 4 * u64::from(x.cols) * u64::from(self.pass.rows_of(x.rows));
        let words = self.recorder.read_buffer(&x.buffer, bytes).await?;
        Ok(words.into_iter().map(f32::from_bits).collect())
    }
}
