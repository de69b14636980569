//! [`Ops`]: the op list, which is the kernel list (`docs/KERNELS.md`).

use crate::sampling::TokenLogprobs;
use crate::{
    DraftChoice, DraftStart, Drafted, Format, NgramLookup, Phase, Position, Row, Sampling,
    SequenceSlot, StepLimits, StepOutcome, TokenId,
};

/// Rows of a matrix are written in whole groups of this many: the device interleaves them.
pub const ROW_GROUP: u32 = 8;

/// Which rows of a pass an activation holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowSet {
    /// Every row of the pass.
    All,
    /// Only the rows whose logits are wanted: the last `logit_rows` of the pass.
    Logits,
}

/// One matrix of a file, `[rows, cols]`, row-major: `y[r] = Σ_c w[r, c] · x[c]`.
#[derive(Debug, Clone)]
pub struct MatrixPart {
    /// The tensor's name, for errors and the profiler.
    pub name: String,
    /// How its weights are stored.
    pub format: Format,
    /// Outputs.
    pub rows: u32,
    /// Inputs; a multiple of 32.
    pub cols: u32,
}

/// How several matrices over the same input become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MatrixLayout {
    /// Outputs one after another: `[q; k; v]`. One part is the plain case.
    Stacked,
    /// Exactly two parts of one shape, gate and up, for [`Ops::matmul_glu`].
    GateUp,
}

/// What [`Ops::matmul_glu`] makes of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GluActivation {
    /// `x · sigmoid(x)`: SwiGLU.
    Silu,
    /// `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))`: GeGLU with the approximation that Gemma was trained with.
    GeluTanh,
}

/// Which pairs of a head's dimensions RoPE rotates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RopeStyle {
    /// (0,1), (2,3) …: llama weights as GGUF stores them.
    Interleaved,
    /// (i, i + d/2): Hugging Face's convention ("NeoX").
    Halves,
}

/// How RoPE's table is made: `angle(p, i) = p · inv_freq[i]`, cos and sin times `magnitude`.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeTableSpec {
    /// One frequency per rotated pair.
    pub inv_freq: Vec<f64>,
    /// Factor on cos and sin (YaRN's attention factor; 1 elsewhere).
    pub magnitude: f64,
    /// Positions in the table.
    pub positions: u32,
}

/// Dimensions of an attention layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionShape {
    /// Query heads.
    pub heads: u32,
    /// Key and value heads; divides `heads`.
    pub kv_heads: u32,
    /// Width of a head; a multiple of 4.
    pub head_dim: u32,
    /// Factor on q·k.
    pub scale: f32,
    /// Rotated pairs.
    pub rope: RopeStyle,
    /// Positions that a row attends to, its own the last of them; absent: all up to its own.
    pub window: Option<u32>,
}

impl AttentionShape {
    /// The first position that a row at `position` attends to.
    pub fn first_position(&self, position: Position) -> Position {
        match self.window {
            Some(window) => (position + 1).saturating_sub(window),
            None => 0,
        }
    }
}

/// Positions that attention takes together: every split of a row's sums falls at multiples of it, so that it depends on the row's
/// own position alone.
pub const ATTENTION_SPAN: u32 = 128;

/// Size of one layer's KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvShape {
    /// Sequences that can be live at once.
    pub sequences: SequenceSlot,
    /// Positions a sequence.
    pub context: u32,
    /// Query heads that read it.
    pub heads: u32,
    /// Heads.
    pub kv_heads: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// The window of the layer's [`AttentionShape`].
    pub window: Option<u32>,
}

/// Positions beyond the committed ones that passes may have written: 16 steps in flight, of 16 rows each, were given up.
const MAX_OVERSHOOT: u32 = 2 * (crate::MAX_STEPS_A_WAIT * crate::MAX_VERIFY_ROWS) as u32;

impl KvShape {
    /// Positions that the cache has room for. Where a window slides, the cache is a ring of whole spans: position p has the place
    /// p modulo the capacity. It holds the window, what passes may write beyond the committed tokens, and a window more, so that an
    /// answer of that length can be cut off again ([`KvShape::rewind`]).
    pub fn capacity(&self) -> u32 {
        let ring = self.window.and_then(|window| {
            let needed = window.checked_mul(2)?.checked_add(MAX_OVERSHOOT)?;
            needed.checked_next_multiple_of(ATTENTION_SPAN)
        });
        ring.map_or(self.context, |ring| ring.min(self.context))
    }

    /// How many committed positions a sequence may be cut back by, with its window still in the cache; absent: any number.
    pub fn rewind(&self) -> Option<u32> {
        let capacity = self.capacity();
        let window = self.window.filter(|_| capacity < self.context)?;
        Some(capacity - window - MAX_OVERSHOOT)
    }
}

/// What the device chose for one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chosen {
    /// The token.
    Token(TokenId),
    /// The row's logits held a NaN or an infinity: there is no honest choice.
    NonFinite,
}

/// Why a device could not do its work. Broken invariants of the caller assert instead.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OpsError {
    /// No adapter, or none that suits.
    #[error("no usable GPU adapter: {reason}")]
    Unavailable {
        /// What was looked for and what there was.
        reason: String,
    },
    /// The device is gone; nothing on it can be used again.
    #[error("the GPU device was lost: {reason}")]
    DeviceLost {
        /// What the driver said.
        reason: String,
    },
    /// An allocation failed or would exceed a limit.
    #[error("out of GPU memory for {what}: {needed} bytes needed, {available}")]
    OutOfMemory {
        /// The buffer or tensor.
        what: String,
        /// Its size.
        needed: u64,
        /// The limit or the driver's word.
        available: String,
    },
    /// A kernel did not compile, or misbehaved at the load-time check.
    #[error("kernel {kernel}: {reason}")]
    Kernel {
        /// Its label, as the profiler shows it.
        kernel: String,
        /// What went wrong, with the author's file and line where there is one.
        reason: String,
    },
    /// A wait took longer than the limit and a probe failed.
    #[error("the GPU did not answer within {seconds} s")]
    Timeout {
        /// The limit.
        seconds: u32,
    },
}

/// The op list. One method per kernel family; each records and returns at once.
///
/// Shapes: an activation is f32 `[rows, cols]`; rows are the pass's ([`RowSet`]).
/// Loading methods may fail; recording methods assert their shapes.
pub trait Ops {
    /// Quantised weights on the device.
    type Matrix;
    /// f32 parameters `[n]`: norm weights, biases.
    type Vector;
    /// f32 `[rows, cols]` scratch, allocated once for the largest pass.
    type Activation;
    /// Keys and values of one layer.
    type KvCache;
    /// cos and sin, `[positions, pairs]`.
    type RopeTable;
    /// Token ids of one vocabulary by those of another.
    type TokenMap;

    // ---- at load -------------------------------------------------------------------------------

    /// Allocates a matrix. Its bytes follow through [`Ops::write_rows`].
    fn matrix(
        &mut self,
        parts: &[MatrixPart],
        layout: MatrixLayout,
    ) -> Result<Self::Matrix, OpsError>;

    /// Writes whole rows of one part from file bytes. `first_row` is a multiple of [`ROW_GROUP`], and so
    /// is the number of rows unless they are the part's last.
    fn write_rows(
        &mut self,
        matrix: &mut Self::Matrix,
        part: usize,
        first_row: u32,
        bytes: &[u8],
    ) -> Result<(), OpsError>;

    /// Uploads a parameter vector.
    fn vector(&mut self, name: &str, values: &[f32]) -> Result<Self::Vector, OpsError>;

    /// Allocates an activation of `cols` columns.
    fn activation(
        &mut self,
        name: &str,
        cols: u32,
        rows: RowSet,
    ) -> Result<Self::Activation, OpsError>;

    /// Allocates one layer's KV cache.
    fn kv_cache(&mut self, shape: KvShape) -> Result<Self::KvCache, OpsError>;

    /// Uploads RoPE's table, computed in f64.
    fn rope_table(&mut self, spec: &RopeTableSpec) -> Result<Self::RopeTable, OpsError>;

    /// Uploads a table of token ids: `tokens[i]` is the target's id of the draft model's token i, [`crate::NO_COUNTERPART`] where
    /// it has none.
    fn token_map(&mut self, name: &str, tokens: &[TokenId]) -> Result<Self::TokenMap, OpsError>;

    /// Waits until everything uploaded so far has left host memory (loaders call it every 64 MiB).
    fn flush(&mut self) -> impl Future<Output = Result<(), OpsError>>;

    /// Makes every pass of the row family run as if it had [`crate::MAX_VERIFY_ROWS`] rows, through one
    /// pipeline. Asked for once, at load, where the check of row invariance finds that pipelines for
    /// different row counts differ in a bit. Ops whose rows cannot depend on one another have nothing
    /// to change.
    fn pad_rows(&mut self, _on: bool) {}

    /// Drops what was recorded since [`Ops::begin`]: recording it made everything that running it needs, and so a load can
    /// make that before the first request. Ops that compute when recorded have nothing to drop.
    fn discard(&mut self) {}

    /// Forgets failures of what was made and dropped since, and whatever holds it still, so that what is left can be used. Called after
    /// [`Ops::discard`] and [`Ops::flush`], which waits until all of them are known. Ops that fail at once have nothing to forget.
    fn forget_failures(&mut self) {}

    // ---- at the start of a request -------------------------------------------------------------

    /// How tokens of `sequence` are chosen from now on; until then greedily. `prompt` is what penalties of the prompt
    /// look at, and its length is the position of the first output token; output counts start at zero.
    fn set_sampling(
        &mut self,
        sequence: SequenceSlot,
        sampling: &Sampling,
        prompt: &[TokenId],
        vocab: u32,
    ) -> Result<(), OpsError>;

    /// Lets steps of `sequence` follow one another without the host: [`Ops::next_step`] has the device make the row table
    /// of the next pass, [`Ops::begin_next`] starts that pass, and [`Ops::read_step`] tells later what came of each, `batch`
    /// steps (1..=[`crate::MAX_STEPS_A_WAIT`]) a wait. `tokens` were committed so far; all but the last are in the KV cache. One sequence at a time.
    ///
    /// [`Ops::begin`] and another `start_steps` abandon what was not read: those steps still run, and write keys and values
    /// behind the committed tokens, where whoever comes next writes before it reads.
    fn start_steps(
        &mut self,
        sequence: SequenceSlot,
        tokens: &[TokenId],
        limits: &StepLimits,
        batch: usize,
    ) -> Result<(), OpsError>;

    /// Says what the next draft continues ([`Ops::draft`]). Before the [`Ops::begin`] of its first pass.
    fn start_draft(&mut self, start: &DraftStart);

    // ---- recording a step ----------------------------------------------------------------------

    /// Starts a pass: uploads the row table. The last `logit_rows` rows get logits
    /// (0..=[`crate::MAX_VERIFY_ROWS`]; 0: an inner part of a prompt, nothing may be chosen).
    fn begin(&mut self, phase: Phase, rows: &[Row], logit_rows: usize);

    /// Starts a pass of the row family over the rows that the last [`Ops::next_step`] or [`Ops::draft`] made: at most
    /// `drafts + 1`, all with logits, at `last_position` at most. None where the steps, or the draft, had ended. What was recorded
    /// before it and not submitted is handed over with it.
    fn begin_next(&mut self, drafts: usize, last_position: Position);

    /// `out[i] = table[token of row i] · scale`; `out` is `[rows, hidden]`.
    fn embed(&mut self, table: &Self::Matrix, scale: f32, out: &Self::Activation);

    /// `out = x / sqrt(mean(x²) + eps) · weight`, row by row. An `out` of [`RowSet::Logits`] takes only
    /// those rows of an `x` of [`RowSet::All`].
    fn rms_norm(
        &mut self,
        x: &Self::Activation,
        weight: &Self::Vector,
        eps: f32,
        out: &Self::Activation,
    );

    /// `out += x / sqrt(mean(x²) + eps) · weight`, row by row: a norm on the way back into the residual stream.
    fn rms_norm_add(
        &mut self,
        x: &Self::Activation,
        weight: &Self::Vector,
        eps: f32,
        out: &Self::Activation,
    );

    /// Normalises every head of q and k in `qkv` (`[rows, (heads + 2·kv_heads) · head_dim]`) as [`Ops::rms_norm`] does a row;
    /// `weight` is `[2, head_dim]`, q's and k's. v stays.
    fn qk_norm(
        &mut self,
        qkv: &Self::Activation,
        weight: &Self::Vector,
        eps: f32,
        shape: &AttentionShape,
    );

    /// `out = x · Wᵀ (+ bias)`.
    fn matmul(
        &mut self,
        x: &Self::Activation,
        w: &Self::Matrix,
        bias: Option<&Self::Vector>,
        out: &Self::Activation,
    );

    /// `out += x · Wᵀ`: the residual stream.
    fn matmul_add(&mut self, x: &Self::Activation, w: &Self::Matrix, out: &Self::Activation);

    /// `out = activation(x · Wgateᵀ) ⊙ (x · Wupᵀ)`; `w` has [`MatrixLayout::GateUp`].
    fn matmul_glu(
        &mut self,
        x: &Self::Activation,
        w: &Self::Matrix,
        activation: GluActivation,
        out: &Self::Activation,
    );

    /// Rotates q and k of `qkv` (`[rows, (heads + 2·kv_heads) · head_dim]`, which is scratch afterwards) by each row's position,
    /// writes k and v to the cache at that position, and attends:
    /// `out[i] = Σ_p softmax_p(scale · q_i·k_p) · v_p` over positions `0..=position of row i`, or the last
    /// [`AttentionShape::window`] of them; `out` is `[rows, heads · head_dim]`.
    fn attention(
        &mut self,
        qkv: &Self::Activation,
        rope: &Self::RopeTable,
        kv: &Self::KvCache,
        shape: &AttentionShape,
        out: &Self::Activation,
    );

    /// Chooses a token for every logit row as its sequence's [`Sampling`] says ([`crate::sampling`] is the
    /// definition): the largest score, the lowest id of several. Logit rows of one sequence stand beside one
    /// another: the first holds its last committed token, the others its drafts. Row i is processed as if the
    /// drafts before it were accepted, so rows do not depend on one another; then drafts are accepted while
    /// they equal the choice before them, and the choices up to and with the first that no draft equals are
    /// committed: they count for penalties, and the last is what [`crate::TOKEN_ON_DEVICE`] means from now on
    /// (token 0 before any choice and after a non-finite row).
    fn choose(&mut self, logits: &Self::Activation);

    /// Makes the rows of the next pass from what [`Ops::choose`] chose in this one: what is committed joins the device's
    /// history, which ends at the limits of [`Ops::start_steps`], and up to `drafts` tokens that `lookup` finds follow the
    /// last one. [`crate::HostSteps`] is the definition.
    fn next_step(&mut self, drafts: usize, lookup: Option<&NgramLookup>);

    /// Chooses the draft model's token after the last row of its pass, the only one with logits, as [`Ops::choose`] would for that
    /// sequence, but commits nothing; it joins the draft, and the rows of the next pass are made: the draft model's next, or those
    /// that the target verifies. [`crate::HostDraft`] is the definition. Drafts already made are not counted for penalties; where the
    /// vocabularies differ in size, penalties and biases are left out; with `to_target` the largest logit is taken.
    fn draft(
        &mut self,
        logits: &Self::Activation,
        choice: &DraftChoice,
        to_target: Option<&Self::TokenMap>,
    );

    /// Log-probabilities of the raw logits for what [`Ops::choose`] chose in this pass, and of the `top` most
    /// probable tokens (at most [`crate::sampling::MAX_TOP_LOGPROBS`]).
    fn logprobs(&mut self, logits: &Self::Activation, top: u32);

    /// Hands the recording to the device. Nothing waits.
    fn submit(&mut self) -> Result<(), OpsError>;

    // ---- reading back: the only waits ----------------------------------------------------------

    /// What the last submitted step chose, one entry per logit row.
    fn read_chosen(&mut self) -> impl Future<Output = Result<Vec<Chosen>, OpsError>>;

    /// What the last submitted pass chose whose rows [`Ops::draft`] made, and those rows' drafts.
    fn read_drafted(&mut self) -> impl Future<Output = Result<Drafted, OpsError>>;

    /// What came of the oldest step with [`Ops::next_step`] that was submitted and not read.
    ///
    /// # Panics
    /// If there is none.
    fn read_step(&mut self) -> impl Future<Output = Result<StepOutcome, OpsError>>;

    /// What [`Ops::logprobs`] recorded in the last submitted step, one entry per logit row. Read after
    /// [`Ops::read_chosen`].
    fn read_logprobs(&mut self) -> impl Future<Output = Result<Vec<TokenLogprobs>, OpsError>>;

    /// An activation of the last submitted step, `[rows, cols]`: for tests and checks.
    fn read_activation(
        &mut self,
        x: &Self::Activation,
    ) -> impl Future<Output = Result<Vec<f32>, OpsError>>;
}
