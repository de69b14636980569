//! What the decode loop needs of a model.

use crate::Ops;

/// The dimensions of a model, in Hugging Face's spelling.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// `llama`, `qwen2` …
    pub model_type: String,
    /// Rows of the embedding table; every token id is below it.
    pub vocab_size: u32,
    /// Width of the residual stream.
    pub hidden_size: u32,
    /// Width of the feed-forward layer.
    pub intermediate_size: u32,
    /// Layers.
    pub num_hidden_layers: u32,
    /// Query heads.
    pub num_attention_heads: u32,
    /// Key and value heads (GQA where fewer than the query heads).
    pub num_key_value_heads: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// The context the model was trained for, in tokens.
    pub max_position_embeddings: u32,
    /// Epsilon of the RMS norms.
    pub rms_norm_eps: f32,
    /// Base of the rotary embedding.
    pub rope_theta: f64,
    /// Whether the head is the embedding table.
    pub tie_word_embeddings: bool,
}

/// A loaded model over some ops: weights, KV cache and the order of the ops.
pub trait LanguageModel<O: Ops> {
    /// Its dimensions.
    fn config(&self) -> &ModelConfig;

    /// Positions the KV cache holds for a sequence; rows must stand below it.
    fn context_length(&self) -> u32;

    /// How many committed positions a sequence may be cut back by with everything it attends to still in the cache; absent: any
    /// number. Layers whose attention slides keep no more than a ring ([`crate::KvShape::rewind`]).
    fn rewind(&self) -> Option<u32> {
        None
    }

    /// Records one pass over `rows` (already announced with [`Ops::begin`]) and returns the logits,
    /// `[logit_rows, vocab]`, of the last `logit_rows` rows given to `begin`.
    fn forward<'a>(&'a self, ops: &mut O) -> &'a O::Activation;

    /// The same pass through a subset of layers that covers every distinct pipeline once: what the
    /// load-time check of row invariance runs. Its logits mean nothing.
    fn forward_probe<'a>(&'a self, ops: &mut O) -> &'a O::Activation;
}
