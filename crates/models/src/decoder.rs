//! [`Decoder`]: the decoder that today's small models share, and [`DecoderSpec`], in which they differ.
//!
//! Every one of them is: embedding; layers of norm, q·k·v, attention, output projection, norm, gated feed-forward; norm; head. A file
//! of `arch` reads a model's metadata into a spec; from there on one piece of code loads and runs them all. A model whose ops follow
//! one another in another order gets a file of its own that implements [`LanguageModel`].

mod parts;

use foretoken_core::{
    AttentionShape, GluActivation, KvShape, LanguageModel, ModelConfig, Ops, RopeStyle, RowSet,
};
use foretoken_weights::{ByteSource, TensorConvention};

use crate::{
    ModelsError,
    config::{EMBEDDING, OUTPUT},
    load_context::LoadContext,
    probe::distinct_layers,
    rope::{RopeSpec, rope_table_spec},
};
use parts::{Layer, LayerParts};

/// What one layer's attention sees of positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LayerSpec {
    /// Which of [`DecoderSpec::ropes`] turns its q and k.
    pub(crate) rope: usize,
    /// How many positions it attends to, its own among them; absent: all.
    pub(crate) window: Option<u32>,
}

/// How a model differs from its neighbours.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DecoderSpec {
    /// Which pairs of a head RoPE turns, as the file has q and k.
    pub(crate) rope_style: RopeStyle,
    /// The rotary embeddings that layers choose from.
    pub(crate) ropes: Vec<RopeSpec>,
    /// One a layer.
    pub(crate) layers: Vec<LayerSpec>,
    /// Factor on q·k.
    pub(crate) attention_scale: f32,
    /// What becomes of the gate.
    pub(crate) activation: GluActivation,
    /// Factor on the embeddings.
    pub(crate) embedding_scale: f32,
    /// Whether every head of q and k is normalised before RoPE.
    pub(crate) qk_norm: bool,
    /// Whether attention and feed-forward are normalised again before they join the residual stream.
    pub(crate) post_norms: bool,
    /// What is added to the weights of norms: files of some conventions leave out a 1.
    pub(crate) norm_offset: f32,
}

impl DecoderSpec {
    /// Llama's: one rotary embedding with the file's scaling, all positions, SwiGLU, two norms a layer.
    pub(crate) fn llama(config: &ModelConfig, rope_style: RopeStyle) -> Self {
        let layer = LayerSpec {
            rope: 0,
            window: None,
        };
        Self {
            rope_style,
            ropes: vec![RopeSpec::Scaled {
                theta: config.rope_theta,
            }],
            layers: vec![layer; config.num_hidden_layers as usize],
            attention_scale: (1.0 / f64::from(config.head_dim).sqrt()) as f32,
            activation: GluActivation::Silu,
            embedding_scale: 1.0,
            qk_norm: false,
            post_norms: false,
            norm_offset: 0.0,
        }
    }
}

/// The order of q and k of models whose GGUF converter interleaves the halves of a head.
pub(crate) fn interleaved(convention: TensorConvention) -> RopeStyle {
    match convention {
        TensorConvention::Gguf => RopeStyle::Interleaved,
        TensorConvention::HuggingFace => RopeStyle::Halves,
    }
}

/// A model on some ops.
pub(crate) struct Decoder<O: Ops> {
    config: ModelConfig,
    spec: DecoderSpec,
    context_length: u32,
    rewind: Option<u32>,
    embed_tokens: O::Matrix, // [vocab, hidden]
    layers: Vec<Layer<O>>,
    norm: O::Vector,            // [hidden]
    lm_head: Option<O::Matrix>, // [vocab, hidden]; absent: the embedding
    ropes: Vec<O::RopeTable>,   // [positions, head_dim / 2] each
    probe_layers: Vec<usize>,
    x: O::Activation,        // [rows, hidden]: the residual stream
    normed: O::Activation,   // [rows, hidden]
    qkv: O::Activation,      // [rows, (heads + 2·kv_heads) · head_dim]
    attended: O::Activation, // [rows, heads · head_dim]
    ffn: O::Activation,      // [rows, ffn]
    last: O::Activation,     // [logit rows, hidden]
    logits: O::Activation,   // [logit rows, vocab]
}

/// Loads the model that `config` and `spec` describe.
pub(crate) async fn load<O: Ops, S: ByteSource + ?Sized>(
    config: ModelConfig,
    spec: DecoderSpec,
    context: &mut LoadContext<'_, O, S>,
) -> Result<Decoder<O>, ModelsError> {
    let context_length = context.context_length(&config)?;
    let (hidden, vocab) = (config.hidden_size, config.vocab_size);
    // `read_config` has seen to it that three times the first of these fits.
    let q_rows = config.num_attention_heads * config.head_dim;
    let kv_rows = config.num_key_value_heads * config.head_dim;

    // Every description before the first upload: a file that lacks a tensor is refused at once.
    let table = context.part(EMBEDDING, vocab, hidden)?;
    let head = match config.tie_word_embeddings {
        true => None,
        false => Some(context.part(OUTPUT, vocab, hidden)?),
    };
    let mut described = Vec::new();
    for layer in 0..config.num_hidden_layers {
        described.push(LayerParts::describe(context, layer, &config, &spec)?);
    }
    let signatures: Vec<_> = described.iter().map(LayerParts::signature).collect();

    let mut ropes = Vec::new();
    for rope in &spec.ropes {
        let table = rope_table_spec(context, &config, rope, context_length).await?;
        ropes.push(context.ops.rope_table(&table)?);
    }
    let embed_tokens = context.plain_matrix(&table).await?;
    let mut layers = Vec::new();
    // The smallest of the layers whose cache is a ring.
    let mut rewind: Option<u32> = None;
    for (parts, layer) in described.iter().zip(&spec.layers) {
        let kv_shape = KvShape {
            sequences: context.options.sequences,
            context: context_length,
            heads: config.num_attention_heads,
            kv_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
            window: layer.window,
        };
        rewind = rewind.into_iter().chain(kv_shape.rewind()).min();
        layers.push(
            parts
                .load(context, &config, &spec, *layer, kv_shape)
                .await?,
        );
    }
    let norm = context
        .norm("output_norm.weight", hidden, spec.norm_offset)
        .await?;
    let lm_head = match &head {
        Some(head) => Some(context.plain_matrix(head).await?),
        None => None,
    };

    let ops = &mut *context.ops;
    Ok(Decoder {
        x: ops.activation("x", hidden, RowSet::All)?,
        normed: ops.activation("normed", hidden, RowSet::All)?,
        qkv: ops.activation("qkv", q_rows + 2 * kv_rows, RowSet::All)?,
        attended: ops.activation("attended", q_rows, RowSet::All)?,
        ffn: ops.activation("ffn", config.intermediate_size, RowSet::All)?,
        last: ops.activation("last", hidden, RowSet::Logits)?,
        logits: ops.activation("logits", vocab, RowSet::Logits)?,
        probe_layers: distinct_layers(&signatures),
        config,
        spec,
        context_length,
        rewind,
        embed_tokens,
        layers,
        norm,
        lm_head,
        ropes,
    })
}

impl<O: Ops> Decoder<O> {
    /// One pass through `layers`, then the head.
    fn pass<'a>(
        &'a self,
        ops: &mut O,
        layers: impl Iterator<Item = &'a Layer<O>>,
    ) -> &'a O::Activation {
        ops.embed(&self.embed_tokens, self.spec.embedding_scale, &self.x);
        for layer in layers {
            self.attend(ops, layer);
            self.feed_forward(ops, layer);
        }
        ops.rms_norm(&self.x, &self.norm, self.config.rms_norm_eps, &self.last);
        ops.matmul(
            &self.last,
            self.lm_head.as_ref().unwrap_or(&self.embed_tokens),
            None,
            &self.logits,
        );
        &self.logits
    }

    fn attend(&self, ops: &mut O, layer: &Layer<O>) {
        let eps = self.config.rms_norm_eps;
        let shape = AttentionShape {
            heads: self.config.num_attention_heads,
            kv_heads: self.config.num_key_value_heads,
            head_dim: self.config.head_dim,
            scale: self.spec.attention_scale,
            rope: self.spec.rope_style,
            window: layer.spec.window,
        };
        ops.rms_norm(&self.x, &layer.input_norm, eps, &self.normed);
        ops.matmul(
            &self.normed,
            &layer.qkv_proj,
            layer.qkv_bias.as_ref(),
            &self.qkv,
        );
        if let Some(weight) = &layer.qk_norm {
            ops.qk_norm(&self.qkv, weight, eps, &shape);
        }
        let rope = &self.ropes[layer.spec.rope];
        ops.attention(&self.qkv, rope, &layer.kv, &shape, &self.attended);
        self.join(ops, &self.attended, &layer.o_proj, &layer.attention_norm);
    }

    fn feed_forward(&self, ops: &mut O, layer: &Layer<O>) {
        let eps = self.config.rms_norm_eps;
        ops.rms_norm(&self.x, &layer.ffn_norm, eps, &self.normed);
        ops.matmul_glu(
            &self.normed,
            &layer.gate_up_proj,
            self.spec.activation,
            &self.ffn,
        );
        self.join(ops, &self.ffn, &layer.down_proj, &layer.post_ffn_norm);
    }

    /// Projects a half layer's result back into the residual stream, through a norm where the layer has one there.
    fn join(&self, ops: &mut O, from: &O::Activation, w: &O::Matrix, norm: &Option<O::Vector>) {
        match norm {
            None => ops.matmul_add(from, w, &self.x),
            Some(norm) => {
                ops.matmul(from, w, None, &self.normed);
                ops.rms_norm_add(&self.normed, norm, self.config.rms_norm_eps, &self.x);
            }
        }
    }
}

impl<O: Ops> LanguageModel<O> for Decoder<O> {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn context_length(&self) -> u32 {
        self.context_length
    }

    fn rewind(&self) -> Option<u32> {
        self.rewind
    }

    fn forward<'a>(&'a self, ops: &mut O) -> &'a O::Activation {
        self.pass(ops, self.layers.iter())
    }

    fn forward_probe<'a>(&'a self, ops: &mut O) -> &'a O::Activation {
        self.pass(
            ops,
            self.probe_layers
                .iter()
                .filter_map(|&layer| self.layers.get(layer)),
        )
    }
}
