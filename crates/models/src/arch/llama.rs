//! Llama: RMSNorm, RoPE, grouped-query attention, SwiGLU. Llama 2 and 3, SmolLM2, TinyLlama.

use foretoken_core::{
    AttentionShape, KvShape, LanguageModel, MatrixLayout, MatrixPart, ModelConfig, Ops, RopeStyle,
    RowSet,
};
use foretoken_weights::ByteSource;

use crate::{
    ModelsError,
    config::{EMBEDDING, OUTPUT, read_config},
    context_length::context_length,
    load_context::LoadContext,
    probe::{LayerSignature, distinct_layers},
    rope::{ROPE_FREQS, rope_table_spec},
};

/// Values of `general.architecture`.
pub(crate) const NAMES: &[&str] = &["llama"];

/// GGUF stores q and k of these models with the two halves of a head interleaved.
const ROPE: RopeStyle = RopeStyle::Interleaved;

/// A llama model on some ops.
pub(crate) struct Llama<O: Ops> {
    config: ModelConfig,
    context_length: u32,
    attention: AttentionShape,
    embed_tokens: O::Matrix, // [vocab, hidden]
    layers: Vec<Layer<O>>,
    norm: O::Vector,            // [hidden]
    lm_head: Option<O::Matrix>, // [vocab, hidden]; absent: the embedding
    rope: O::RopeTable,
    probe_layers: Vec<usize>,
    x: O::Activation,        // [rows, hidden]: the residual stream
    normed: O::Activation,   // [rows, hidden]
    qkv: O::Activation,      // [rows, (heads + 2·kv_heads) · head_dim]
    attended: O::Activation, // [rows, heads · head_dim]
    ffn: O::Activation,      // [rows, ffn]
    last: O::Activation,     // [logit rows, hidden]
    logits: O::Activation,   // [logit rows, vocab]
}

/// One layer.
struct Layer<O: Ops> {
    input_layernorm: O::Vector,          // [hidden]
    qkv_proj: O::Matrix,                 // [(heads + 2·kv_heads) · head_dim, hidden]
    qkv_bias: Option<O::Vector>,         // [(heads + 2·kv_heads) · head_dim]
    kv: O::KvCache,                      // [sequences, context, kv_heads, head_dim]
    o_proj: O::Matrix,                   // [hidden, heads · head_dim]
    post_attention_layernorm: O::Vector, // [hidden]
    gate_up_proj: O::Matrix,             // [2 · ffn, hidden]
    down_proj: O::Matrix,                // [hidden, ffn]
}

/// Loads a model of `architecture`, one of [`NAMES`].
pub(crate) async fn load<O: Ops, S: ByteSource + ?Sized>(
    architecture: &str,
    context: &mut LoadContext<'_, O, S>,
) -> Result<Llama<O>, ModelsError> {
    let gguf = context.gguf;
    let config = read_config(architecture, gguf)?;
    let context_length = context_length(
        context.options.context_length,
        config.max_position_embeddings,
    )?;
    let head_dim = config.head_dim;
    let attention = AttentionShape {
        heads: config.num_attention_heads,
        kv_heads: config.num_key_value_heads,
        head_dim,
        scale: (1.0 / f64::from(head_dim).sqrt()) as f32,
        rope: ROPE,
    };
    let (hidden, ffn, vocab) = (
        config.hidden_size,
        config.intermediate_size,
        config.vocab_size,
    );
    // `read_config` has seen to it that three times the first of these fits.
    let (q_rows, kv_rows) = (attention.heads * head_dim, attention.kv_heads * head_dim);

    // Every description before the first upload: a file that lacks a tensor is refused at once.
    let table = context.part(EMBEDDING, vocab, hidden)?;
    let head = match config.tie_word_embeddings {
        true => None,
        false => Some(context.part(OUTPUT, vocab, hidden)?),
    };
    let mut described = Vec::new();
    for layer in 0..config.num_hidden_layers {
        described.push(LayerParts::describe(context, layer, &config)?);
    }
    let signatures: Vec<_> = described.iter().map(LayerParts::signature).collect();

    let factors = match context.has(ROPE_FREQS) {
        true => Some(context.values(ROPE_FREQS, head_dim / 2).await?),
        false => None,
    };
    let rope = rope_table_spec(&config, &gguf.metadata, factors.as_deref(), context_length)?;
    let rope = context.ops.rope_table(&rope)?;

    let embed_tokens = context.plain_matrix(&table).await?;
    let kv_shape = KvShape {
        sequences: context.options.sequences,
        context: context_length,
        heads: attention.heads,
        kv_heads: attention.kv_heads,
        head_dim,
    };
    let mut layers = Vec::new();
    for parts in &described {
        layers.push(parts.load(context, kv_shape, hidden).await?);
    }
    let norm = context.vector("output_norm.weight", hidden).await?;
    let lm_head = match &head {
        Some(head) => Some(context.plain_matrix(head).await?),
        None => None,
    };

    let ops = &mut *context.ops;
    Ok(Llama {
        x: ops.activation("x", hidden, RowSet::All)?,
        normed: ops.activation("normed", hidden, RowSet::All)?,
        qkv: ops.activation("qkv", q_rows + 2 * kv_rows, RowSet::All)?,
        attended: ops.activation("attended", q_rows, RowSet::All)?,
        ffn: ops.activation("ffn", ffn, RowSet::All)?,
        last: ops.activation("last", hidden, RowSet::Logits)?,
        logits: ops.activation("logits", vocab, RowSet::Logits)?,
        probe_layers: distinct_layers(&signatures),
        config,
        context_length,
        attention,
        embed_tokens,
        layers,
        norm,
        lm_head,
        rope,
    })
}

/// The matrices of a layer, as the file has them.
struct LayerParts {
    prefix: String,
    qkv: [MatrixPart; 3],
    bias: bool,
    o: MatrixPart,
    gate_up: [MatrixPart; 2],
    down: MatrixPart,
}

impl LayerParts {
    fn describe<O: Ops, S: ByteSource + ?Sized>(
        context: &LoadContext<'_, O, S>,
        layer: u32,
        config: &ModelConfig,
    ) -> Result<Self, ModelsError> {
        let (hidden, ffn) = (config.hidden_size, config.intermediate_size);
        let q_rows = config.num_attention_heads * config.head_dim;
        let kv_rows = config.num_key_value_heads * config.head_dim;
        let prefix = format!("blk.{layer}");
        let part =
            |name: &str, rows, cols| context.part(&format!("{prefix}.{name}.weight"), rows, cols);
        Ok(Self {
            qkv: [
                part("attn_q", q_rows, hidden)?,
                part("attn_k", kv_rows, hidden)?,
                part("attn_v", kv_rows, hidden)?,
            ],
            o: part("attn_output", hidden, q_rows)?,
            gate_up: [part("ffn_gate", ffn, hidden)?, part("ffn_up", ffn, hidden)?],
            down: part("ffn_down", hidden, ffn)?,
            // All three or none: where one is there, the others are required.
            bias: ["attn_q", "attn_k", "attn_v"]
                .iter()
                .any(|name| context.has(&format!("{prefix}.{name}.bias"))),
            prefix,
        })
    }

    fn signature(&self) -> LayerSignature {
        let parts = self
            .qkv
            .iter()
            .chain([&self.o])
            .chain(&self.gate_up)
            .chain([&self.down]);
        LayerSignature::new(parts, self.bias)
    }

    async fn load<O: Ops, S: ByteSource + ?Sized>(
        &self,
        context: &mut LoadContext<'_, O, S>,
        kv_shape: KvShape,
        hidden: u32,
    ) -> Result<Layer<O>, ModelsError> {
        let name = |name: &str| format!("{}.{name}", self.prefix);
        Ok(Layer {
            input_layernorm: context.vector(&name("attn_norm.weight"), hidden).await?,
            qkv_proj: context.matrix(&self.qkv, MatrixLayout::Stacked).await?,
            qkv_bias: if self.bias {
                let mut bias = Vec::new();
                for (part, stem) in self.qkv.iter().zip(["attn_q", "attn_k", "attn_v"]) {
                    bias.extend(
                        context
                            .values(&name(&format!("{stem}.bias")), part.rows)
                            .await?,
                    );
                }
                Some(context.ops.vector(&name("attn_qkv.bias"), &bias)?)
            } else {
                None
            },
            kv: context.ops.kv_cache(kv_shape)?,
            o_proj: context.plain_matrix(&self.o).await?,
            post_attention_layernorm: context.vector(&name("ffn_norm.weight"), hidden).await?,
            gate_up_proj: context.matrix(&self.gate_up, MatrixLayout::GateUp).await?,
            down_proj: context.plain_matrix(&self.down).await?,
        })
    }
}

impl<O: Ops> Llama<O> {
    /// One pass through `layers`, then the head.
    fn pass<'a>(
        &'a self,
        ops: &mut O,
        layers: impl Iterator<Item = &'a Layer<O>>,
    ) -> &'a O::Activation {
        let eps = self.config.rms_norm_eps;
        ops.embed(&self.embed_tokens, &self.x);
        for layer in layers {
            ops.rms_norm(&self.x, &layer.input_layernorm, eps, &self.normed);
            ops.matmul(
                &self.normed,
                &layer.qkv_proj,
                layer.qkv_bias.as_ref(),
                &self.qkv,
            );
            ops.attention(
                &self.qkv,
                &self.rope,
                &layer.kv,
                &self.attention,
                &self.attended,
            );
            ops.matmul_add(&self.attended, &layer.o_proj, &self.x);
            ops.rms_norm(&self.x, &layer.post_attention_layernorm, eps, &self.normed);
            ops.matmul_swiglu(&self.normed, &layer.gate_up_proj, &self.ffn);
            ops.matmul_add(&self.ffn, &layer.down_proj, &self.x);
        }
        ops.rms_norm(&self.x, &self.norm, eps, &self.last);
        ops.matmul(
            &self.last,
            self.lm_head.as_ref().unwrap_or(&self.embed_tokens),
            None,
            &self.logits,
        );
        &self.logits
    }
}

impl<O: Ops> LanguageModel<O> for Llama<O> {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn context_length(&self) -> u32 {
        self.context_length
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
