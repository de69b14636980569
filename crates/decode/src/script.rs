//! SCRIPT: the decode loop on a table of logits instead of a model, to test it without weights or a
//! device.
//!
//! A [`Script`] is a function from a prefix of tokens to logits over a small vocabulary. [`ScriptOps`]
//! keeps what a KV cache would keep, the token written at each position of each sequence, and a row's
//! logits are the script's for *the tokens at the positions it attends to*, never for what the loop
//! believes it committed. So a loop that writes to a wrong position, leaves a hole, or attends to a
//! rejected draft gets other logits than [`Script::greedy`] has, or an assertion.

use std::fmt;
use std::rc::Rc;

use foretoken_core::sampling::{TokenLogprobs, choose_rows, token_logprobs};
use foretoken_core::{
    AttentionShape, Chooser, Chosen, DraftChoice, DraftStart, Drafted, GluActivation, HostDraft,
    HostSteps, KvShape, LanguageModel, MAX_STEPS_A_WAIT, MatrixLayout, MatrixPart, ModelConfig,
    NgramLookup, Ops, OpsError, Phase, Position, RopeTableSpec, Row, RowSet, Sampling,
    SequenceSlot, StepLimits, StepOutcome, TOKEN_ON_DEVICE, TokenId,
};

use crate::Sequence;

/// Logits, `[vocab]`, for a prefix.
type Logits = dyn Fn(&[TokenId]) -> Vec<f32>;

/// Logits as a function of the tokens before.
#[derive(Clone)]
pub struct Script {
    vocab: u32,
    context: u32,
    logits: Rc<Logits>,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Script {{ vocab: {}, context: {} }}",
            self.vocab, self.context
        )
    }
}

impl Script {
    /// A script from a closure, which returns `vocab` logits for a prefix of at least one token.
    pub fn new(
        vocab: u32,
        context: u32,
        logits: impl Fn(&[TokenId]) -> Vec<f32> + 'static,
    ) -> Self {
        Self {
            vocab,
            context,
            logits: Rc::new(logits),
        }
    }

    /// Pseudo-random logits that depend on the seed and on every token of the prefix. They are
    /// multiples of 1/8 in [-4, 4), so that ties occur.
    pub fn seeded(seed: u64, vocab: u32, context: u32) -> Self {
        Self::new(vocab, context, move |prefix| {
            let state = prefix
                .iter()
                .fold(mix(seed), |state, &token| mix(state ^ u64::from(token)));
            (0..u64::from(vocab))
                .map(|token| (mix(state.wrapping_add(token)) >> 58) as f32 / 8.0 - 4.0)
                .collect()
        })
    }

    /// The logits after a prefix, `[vocab]`.
    pub fn logits(&self, prefix: &[TokenId]) -> Vec<f32> {
        let logits = (self.logits)(prefix);
        assert_eq!(
            logits.len(),
            self.vocab as usize,
            "a script returns one logit per token"
        );
        logits
    }

    /// The token with the largest logit after a prefix, the lowest of several: the oracle that a loop
    /// is held against.
    pub fn greedy(&self, prefix: &[TokenId]) -> TokenId {
        argmax(&self.logits(prefix))
    }

    /// Ops and model that follow this script.
    pub fn rig(&self) -> (ScriptOps, ScriptModel) {
        let mut ops = ScriptOps::default();
        let model = ops.load(self);
        (ops, model)
    }
}

/// One round of a 64-bit mixer (splitmix64's finaliser).
fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn argmax(logits: &[f32]) -> TokenId {
    let mut best = 0;
    for (i, &logit) in logits.iter().enumerate() {
        if logit > logits[best] {
            best = i;
        }
    }
    best as TokenId
}

/// The logits of a [`ScriptModel`]; their values are with the ops.
#[derive(Debug)]
pub struct ScriptLogits {
    /// Whose they are.
    model: usize,
}

/// The model of a [`Script`].
#[derive(Debug)]
pub struct ScriptModel {
    config: ModelConfig,
    context: u32,
    logits: ScriptLogits,
}

impl LanguageModel<ScriptOps> for ScriptModel {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn context_length(&self) -> u32 {
        self.context
    }

    fn forward<'a>(&'a self, ops: &mut ScriptOps) -> &'a ScriptLogits {
        ops.run(self.logits.model);
        &self.logits
    }

    fn forward_probe<'a>(&'a self, ops: &mut ScriptOps) -> &'a ScriptLogits {
        self.forward(ops)
    }
}

/// A script that was loaded.
#[derive(Debug)]
struct Loaded {
    script: Script,
    /// Per sequence and position: the token whose keys and values would be there.
    cache: Vec<Vec<Option<TokenId>>>,
}

/// Ops that keep an audited KV cache of token ids for every [`Script`] that was loaded, and evaluate it.
#[derive(Debug, Default)]
pub struct ScriptOps {
    models: Vec<Loaded>,
    pass: Vec<Row>,
    logit_rows: usize,
    /// `[logit_rows, vocab]` of the pass.
    logits: Vec<f32>,
    chosen: Vec<Chosen>,
    /// Per sequence: how its tokens are chosen.
    choosers: Vec<Chooser>,
    logprobs: Vec<TokenLogprobs>,
    /// Per sequence: what [`TOKEN_ON_DEVICE`] stands for.
    last_token: Vec<TokenId>,
    steps: HostSteps,
    draft: HostDraft,
    /// The rows of the next pass, where a step or a draft made them.
    next_rows: Vec<Row>,
    passes: u64,
    submits: u64,
    reads: u64,
    lost_after: Option<u64>,
    cheat: Option<usize>,
}

impl ScriptOps {
    /// Loads a script: a model with a KV cache of its own.
    pub fn load(&mut self, script: &Script) -> ScriptModel {
        self.models.push(Loaded {
            script: script.clone(),
            cache: Vec::new(),
        });
        ScriptModel {
            config: ModelConfig {
                model_type: "script".to_owned(),
                vocab_size: script.vocab,
                hidden_size: 32,
                intermediate_size: 32,
                num_hidden_layers: 1,
                num_attention_heads: 1,
                num_key_value_heads: 1,
                head_dim: 32,
                max_position_embeddings: script.context,
                rms_norm_eps: 1e-5,
                rope_theta: 10_000.0,
                tie_word_embeddings: true,
            },
            context: script.context,
            logits: ScriptLogits {
                model: self.models.len() - 1,
            },
        }
    }

    /// Passes run.
    pub fn passes(&self) -> u64 {
        self.passes
    }

    /// Submissions.
    pub fn submits(&self) -> u64 {
        self.submits
    }

    /// Reads waited for.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Loses the device at the submit after `submits` more.
    pub fn lose_device_after(&mut self, submits: u64) {
        self.lost_after = Some(self.submits + submits);
    }

    /// Changes the last bit of the logits of every pass of `rows` rows of the row family, until
    /// [`Ops::pad_rows`] is asked for: a device whose kernels depend on the row count.
    pub fn cheat_on_rows(&mut self, rows: usize) {
        self.cheat = Some(rows);
    }

    /// Asserts that the first model's cache holds the sequence's tokens below its `kv_len`.
    ///
    /// # Panics
    /// If it holds others, naming the position.
    pub fn audit(&self, sequence: &Sequence) {
        let cache = &self.models[0].cache;
        let empty = Vec::new();
        let cache = cache.get(sequence.slot() as usize).unwrap_or(&empty);
        for (position, &token) in sequence.tokens()[..sequence.kv_len()].iter().enumerate() {
            assert_eq!(
                cache.get(position).copied().flatten(),
                Some(token),
                "KV cache of sequence {} at position {position}",
                sequence.slot()
            );
        }
    }

    fn reach(&mut self, sequence: SequenceSlot) {
        let len = sequence as usize + 1;
        if self.choosers.len() < len {
            self.choosers.resize(len, Chooser::default());
            self.last_token.resize(len, 0);
        }
    }

    /// Starts a pass, with what [`TOKEN_ON_DEVICE`] stands for put in.
    fn start(&mut self, rows: &[Row], logit_rows: usize) {
        self.pass = rows.to_vec();
        for (i, row) in rows.iter().enumerate() {
            self.reach(row.sequence);
            if row.token == TOKEN_ON_DEVICE {
                self.pass[i].token = self.last_token[row.sequence as usize];
            }
        }
        self.logit_rows = logit_rows;
        self.chosen.clear();
    }

    /// Writes the pass's tokens to a model's cache, and evaluates its script for the rows that want logits.
    fn run(&mut self, model: usize) {
        assert!(!self.pass.is_empty(), "forward without begin");
        self.passes += 1;
        let Loaded { script, cache } = &mut self.models[model];
        for row in &self.pass {
            assert!(
                row.position < script.context,
                "{row:?} stands beyond the context"
            );
            assert!(
                row.token < script.vocab,
                "{row:?} is outside the vocabulary"
            );
            let slot = row.sequence as usize;
            if cache.len() <= slot {
                cache.resize(slot + 1, Vec::new());
            }
            let position = row.position as usize;
            if cache[slot].len() <= position {
                cache[slot].resize(position + 1, None);
            }
            cache[slot][position] = Some(row.token);
        }
        self.logits.clear();
        for row in &self.pass[self.pass.len() - self.logit_rows..] {
            let prefix: Vec<TokenId> = cache[row.sequence as usize][..=row.position as usize]
                .iter()
                .enumerate()
                .map(|(position, token)| {
                    token.unwrap_or_else(|| {
                        panic!("{row:?} attends to position {position}: never written")
                    })
                })
                .collect();
            self.logits.extend(script.logits(&prefix));
        }
        if self.cheat == Some(self.pass.len())
            && let Some(first) = self.logits.first_mut()
        {
            *first = f32::from_bits(first.to_bits() ^ 1);
        }
    }

    fn vocab(&self, logits: &ScriptLogits) -> usize {
        self.models[logits.model].script.vocab as usize
    }
}

impl Ops for ScriptOps {
    type Matrix = ();
    type Vector = ();
    type Activation = ScriptLogits;
    type KvCache = ();
    type RopeTable = ();
    type TokenMap = Vec<TokenId>;

    fn matrix(&mut self, _: &[MatrixPart], _: MatrixLayout) -> Result<(), OpsError> {
        Ok(())
    }

    fn write_rows(&mut self, _: &mut (), _: usize, _: u32, _: &[u8]) -> Result<(), OpsError> {
        Ok(())
    }

    fn vector(&mut self, _: &str, _: &[f32]) -> Result<(), OpsError> {
        Ok(())
    }

    fn activation(&mut self, _: &str, _: u32, _: RowSet) -> Result<ScriptLogits, OpsError> {
        Ok(ScriptLogits { model: 0 })
    }

    fn kv_cache(&mut self, _: KvShape) -> Result<(), OpsError> {
        Ok(())
    }

    fn rope_table(&mut self, _: &RopeTableSpec) -> Result<(), OpsError> {
        Ok(())
    }

    fn token_map(&mut self, _: &str, tokens: &[TokenId]) -> Result<Vec<TokenId>, OpsError> {
        Ok(tokens.to_vec())
    }

    async fn flush(&mut self) -> Result<(), OpsError> {
        Ok(())
    }

    fn pad_rows(&mut self, on: bool) {
        assert!(on, "a script's device is never asked to stop padding");
        self.cheat = None;
    }

    fn start_steps(
        &mut self,
        sequence: SequenceSlot,
        tokens: &[TokenId],
        limits: &StepLimits,
        batch: usize,
    ) -> Result<(), OpsError> {
        assert!(
            (1..=MAX_STEPS_A_WAIT).contains(&batch),
            "{batch} steps a wait"
        );
        self.steps.start(sequence, tokens, limits);
        Ok(())
    }

    fn start_draft(&mut self, start: &DraftStart) {
        self.draft.start(*start);
    }

    fn begin(&mut self, phase: Phase, rows: &[Row], logit_rows: usize) {
        assert!(
            (1..=phase.max_rows()).contains(&rows.len()),
            "{} rows in {phase:?}",
            rows.len()
        );
        assert!(
            logit_rows <= rows.len(),
            "{logit_rows} logit rows of {}",
            rows.len()
        );
        self.steps.abandon();
        self.start(rows, logit_rows);
    }

    fn begin_next(&mut self, drafts: usize, last_position: Position) {
        let rows = std::mem::take(&mut self.next_rows);
        assert!(
            rows.len() <= drafts + 1 && rows.iter().all(|row| row.position <= last_position),
            "{rows:?} for {drafts} drafts up to position {last_position}"
        );
        self.start(&rows, rows.len());
    }

    fn embed(&mut self, _: &(), _: f32, _: &ScriptLogits) {}
    fn rms_norm(&mut self, _: &ScriptLogits, _: &(), _: f32, _: &ScriptLogits) {}
    fn rms_norm_add(&mut self, _: &ScriptLogits, _: &(), _: f32, _: &ScriptLogits) {}
    fn qk_norm(&mut self, _: &ScriptLogits, _: &(), _: f32, _: &AttentionShape) {}
    fn matmul(&mut self, _: &ScriptLogits, _: &(), _: Option<&()>, _: &ScriptLogits) {}
    fn matmul_add(&mut self, _: &ScriptLogits, _: &(), _: &ScriptLogits) {}
    fn matmul_glu(&mut self, _: &ScriptLogits, _: &(), _: GluActivation, _: &ScriptLogits) {}
    fn attention(
        &mut self,
        _: &ScriptLogits,
        _: &(),
        _: &(),
        _: &AttentionShape,
        _: &ScriptLogits,
    ) {
    }

    fn set_sampling(
        &mut self,
        sequence: SequenceSlot,
        sampling: &Sampling,
        prompt: &[TokenId],
        vocab: u32,
    ) -> Result<(), OpsError> {
        let target = &self.models[0].script;
        assert_eq!(vocab, target.vocab, "the model's vocabulary");
        self.reach(sequence);
        self.choosers[sequence as usize] = Chooser::new(sampling.clone(), prompt);
        Ok(())
    }

    fn choose(&mut self, _: &ScriptLogits) {
        let rows = &self.pass[self.pass.len() - self.logit_rows..];
        assert!(!rows.is_empty(), "choose in a pass without logit rows");
        let (chosen, last_tokens) = choose_rows(&mut self.choosers, rows, &self.logits);
        for (sequence, token) in last_tokens {
            self.last_token[sequence as usize] = token;
        }
        self.chosen = chosen;
    }

    fn next_step(&mut self, drafts: usize, lookup: Option<&NgramLookup>) {
        let rows = &self.pass[self.pass.len() - self.logit_rows..];
        self.steps.advance(rows, &self.chosen, drafts, lookup);
        self.next_rows = self.steps.rows().to_vec();
    }

    fn draft(&mut self, _: &ScriptLogits, choice: &DraftChoice, to_target: Option<&Vec<TokenId>>) {
        assert_eq!(self.logit_rows, 1, "a draft model's pass has one logit row");
        let row = self.pass[self.pass.len() - 1];
        let chooser = &self.choosers[row.sequence as usize];
        let to_target = to_target.map(Vec::as_slice);
        self.draft
            .choose(chooser, row, &self.logits, choice, to_target);
        self.next_rows = self.draft.rows().to_vec();
    }

    fn logprobs(&mut self, logits: &ScriptLogits, top: u32) {
        let rows = self.logits.chunks(self.vocab(logits));
        self.logprobs = rows
            .zip(&self.chosen)
            .filter_map(|(row, chosen)| match chosen {
                Chosen::Token(token) => Some(token_logprobs(row, *token, top as usize)),
                Chosen::NonFinite => None,
            })
            .collect();
    }

    fn submit(&mut self) -> Result<(), OpsError> {
        if self
            .lost_after
            .is_some_and(|submits| self.submits >= submits)
        {
            return Err(OpsError::DeviceLost {
                reason: "the script says so".to_owned(),
            });
        }
        self.submits += 1;
        Ok(())
    }

    async fn read_chosen(&mut self) -> Result<Vec<Chosen>, OpsError> {
        self.reads += 1;
        Ok(self.chosen.clone())
    }

    async fn read_drafted(&mut self) -> Result<Drafted, OpsError> {
        self.reads += 1;
        Ok(self.draft.drafted(&self.chosen))
    }

    async fn read_step(&mut self) -> Result<StepOutcome, OpsError> {
        self.reads += 1;
        Ok(self.steps.pop().expect("a step that was not read"))
    }

    async fn read_logprobs(&mut self) -> Result<Vec<TokenLogprobs>, OpsError> {
        Ok(self.logprobs.clone())
    }

    async fn read_activation(&mut self, _: &ScriptLogits) -> Result<Vec<f32>, OpsError> {
        self.reads += 1;
        Ok(self.logits.clone())
    }
}
