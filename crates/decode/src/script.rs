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
    AttentionShape, Chooser, Chosen, GluActivation, HostSteps, KvShape, LanguageModel,
    MAX_STEPS_A_WAIT, MatrixLayout, MatrixPart, ModelConfig, NgramLookup, Ops, OpsError, Phase,
    Position, RopeTableSpec, Row, RowSet, Sampling, SequenceSlot, StepLimits, StepOutcome,
    TOKEN_ON_DEVICE, TokenId,
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
        let ops = ScriptOps {
            script: self.clone(),
            cache: Vec::new(),
            pass: Vec::new(),
            logit_rows: 0,
            logits: Vec::new(),
            chosen: Vec::new(),
            choosers: Vec::new(),
            logprobs: Vec::new(),
            last_token: Vec::new(),
            steps: HostSteps::default(),
            passes: 0,
            reads: 0,
            lost_after: None,
            cheat: None,
        };
        let model = ScriptModel {
            config: ModelConfig {
                model_type: "script".to_owned(),
                vocab_size: self.vocab,
                hidden_size: 32,
                intermediate_size: 32,
                num_hidden_layers: 1,
                num_attention_heads: 1,
                num_key_value_heads: 1,
                head_dim: 32,
                max_position_embeddings: self.context,
                rms_norm_eps: 1e-5,
                rope_theta: 10_000.0,
                tie_word_embeddings: true,
            },
            context: self.context,
            logits: ScriptLogits,
        };
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
pub struct ScriptLogits;

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
        ops.run();
        &self.logits
    }

    fn forward_probe<'a>(&'a self, ops: &mut ScriptOps) -> &'a ScriptLogits {
        self.forward(ops)
    }
}

/// Ops that keep an audited KV cache of token ids and evaluate a [`Script`].
#[derive(Debug)]
pub struct ScriptOps {
    script: Script,
    /// Per sequence and position: the token whose keys and values would be there.
    cache: Vec<Vec<Option<TokenId>>>,
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
    passes: u64,
    reads: u64,
    lost_after: Option<u64>,
    cheat: Option<usize>,
}

impl ScriptOps {
    /// Passes submitted.
    pub fn passes(&self) -> u64 {
        self.passes
    }

    /// Reads waited for.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Loses the device at the submit after `passes` more.
    pub fn lose_device_after(&mut self, passes: u64) {
        self.lost_after = Some(self.passes + passes);
    }

    /// Changes the last bit of the logits of every pass of `rows` rows of the row family, until
    /// [`Ops::pad_rows`] is asked for: a device whose kernels depend on the row count.
    pub fn cheat_on_rows(&mut self, rows: usize) {
        self.cheat = Some(rows);
    }

    /// Asserts that the cache holds the sequence's tokens below its `kv_len`.
    ///
    /// # Panics
    /// If it holds others, naming the position.
    pub fn audit(&self, sequence: &Sequence) {
        let empty = Vec::new();
        let cache = self.cache.get(sequence.slot() as usize).unwrap_or(&empty);
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
        if self.cache.len() < len {
            self.cache.resize(len, Vec::new());
            self.choosers.resize(len, Chooser::default());
            self.last_token.resize(len, 0);
        }
    }

    /// Starts a pass: its tokens go to the cache.
    fn write(&mut self, rows: &[Row]) {
        for row in rows {
            assert!(
                row.position < self.script.context,
                "{row:?} stands beyond the context"
            );
            let slot = row.sequence as usize;
            if self.cache.len() <= slot {
                self.reach(row.sequence);
            }
            let token = match row.token {
                TOKEN_ON_DEVICE => self.last_token[slot],
                token => token,
            };
            assert!(
                token < self.script.vocab,
                "{row:?} is outside the vocabulary"
            );
            let cache = &mut self.cache[slot];
            let position = row.position as usize;
            if cache.len() <= position {
                cache.resize(position + 1, None);
            }
            cache[position] = Some(token);
        }
        self.pass = rows.to_vec();
        self.chosen.clear();
    }

    /// Evaluates the script for the rows that want logits.
    fn run(&mut self) {
        assert!(!self.pass.is_empty(), "forward without begin");
        self.logits.clear();
        for row in &self.pass[self.pass.len() - self.logit_rows..] {
            let prefix: Vec<TokenId> = self.cache[row.sequence as usize][..=row.position as usize]
                .iter()
                .enumerate()
                .map(|(position, token)| {
                    token.unwrap_or_else(|| {
                        panic!("{row:?} attends to position {position}: never written")
                    })
                })
                .collect();
            self.logits.extend(self.script.logits(&prefix));
        }
        if self.cheat == Some(self.pass.len())
            && let Some(first) = self.logits.first_mut()
        {
            *first = f32::from_bits(first.to_bits() ^ 1);
        }
    }
}

impl Ops for ScriptOps {
    type Matrix = ();
    type Vector = ();
    type Activation = ScriptLogits;
    type KvCache = ();
    type RopeTable = ();

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
        Ok(ScriptLogits)
    }

    fn kv_cache(&mut self, _: KvShape) -> Result<(), OpsError> {
        Ok(())
    }

    fn rope_table(&mut self, _: &RopeTableSpec) -> Result<(), OpsError> {
        Ok(())
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
        self.write(rows);
        self.logit_rows = logit_rows;
    }

    fn begin_next(&mut self, drafts: usize, last_position: Position) {
        let rows = self.steps.rows().to_vec();
        assert!(
            rows.len() <= drafts + 1 && rows.iter().all(|row| row.position <= last_position),
            "{rows:?} for {drafts} drafts up to position {last_position}"
        );
        self.write(&rows);
        self.logit_rows = rows.len();
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
        assert_eq!(vocab, self.script.vocab, "the model's vocabulary");
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
    }

    fn logprobs(&mut self, _: &ScriptLogits, top: u32) {
        let rows = self.logits.chunks(self.script.vocab as usize);
        self.logprobs = rows
            .zip(&self.chosen)
            .filter_map(|(row, chosen)| match chosen {
                Chosen::Token(token) => Some(token_logprobs(row, *token, top as usize)),
                Chosen::NonFinite => None,
            })
            .collect();
    }

    fn submit(&mut self) -> Result<(), OpsError> {
        if self.lost_after.is_some_and(|passes| self.passes >= passes) {
            return Err(OpsError::DeviceLost {
                reason: "the script says so".to_owned(),
            });
        }
        self.passes += 1;
        Ok(())
    }

    async fn read_chosen(&mut self) -> Result<Vec<Chosen>, OpsError> {
        self.reads += 1;
        Ok(self.chosen.clone())
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
