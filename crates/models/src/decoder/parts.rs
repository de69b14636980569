//! One layer: its tensors in the file, and on the ops.

use foretoken_core::{KvShape, MatrixLayout, MatrixPart, ModelConfig, Ops};
use foretoken_weights::ByteSource;

use super::{DecoderSpec, LayerSpec};
use crate::{ModelsError, load_context::LoadContext, probe::LayerSignature};

/// A layer on some ops.
pub(super) struct Layer<O: Ops> {
    pub(super) spec: LayerSpec,
    pub(super) input_norm: O::Vector,             // [hidden]
    pub(super) qkv_proj: O::Matrix,               // [(heads + 2·kv_heads) · head_dim, hidden]
    pub(super) qkv_bias: Option<O::Vector>,       // [(heads + 2·kv_heads) · head_dim]
    pub(super) qk_norm: Option<O::Vector>,        // [2, head_dim]: q's and k's
    pub(super) kv: O::KvCache, // [sequences, context or ring, kv_heads, head_dim]
    pub(super) o_proj: O::Matrix, // [hidden, heads · head_dim]
    pub(super) attention_norm: Option<O::Vector>, // [hidden]: after the output projection
    pub(super) ffn_norm: O::Vector, // [hidden]
    pub(super) gate_up_proj: O::Matrix, // [2 · ffn, hidden]
    pub(super) down_proj: O::Matrix, // [hidden, ffn]
    pub(super) post_ffn_norm: Option<O::Vector>, // [hidden]: after the down projection
}

/// The matrices of a layer, as the file has them.
pub(super) struct LayerParts {
    prefix: String,
    qkv: [MatrixPart; 3],
    bias: bool,
    o: MatrixPart,
    gate_up: [MatrixPart; 2],
    down: MatrixPart,
    window: Option<u32>,
}

impl LayerParts {
    pub(super) fn describe<O: Ops, S: ByteSource + ?Sized>(
        context: &LoadContext<'_, O, S>,
        layer: u32,
        config: &ModelConfig,
        spec: &DecoderSpec,
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
            window: spec.layers[layer as usize].window,
            prefix,
        })
    }

    pub(super) fn signature(&self) -> LayerSignature {
        let parts = self
            .qkv
            .iter()
            .chain([&self.o])
            .chain(&self.gate_up)
            .chain([&self.down]);
        LayerSignature::new(parts, self.bias, self.window)
    }

    pub(super) async fn load<O: Ops, S: ByteSource + ?Sized>(
        &self,
        context: &mut LoadContext<'_, O, S>,
        config: &ModelConfig,
        spec: &DecoderSpec,
        layer: LayerSpec,
        kv_shape: KvShape,
    ) -> Result<Layer<O>, ModelsError> {
        let (hidden, offset) = (config.hidden_size, spec.norm_offset);
        let name = |stem: &str| format!("{}.{stem}.weight", self.prefix);
        Ok(Layer {
            spec: layer,
            input_norm: context.norm(&name("attn_norm"), hidden, offset).await?,
            qkv_proj: context.matrix(&self.qkv, MatrixLayout::Stacked).await?,
            qkv_bias: match self.bias {
                true => Some(self.load_bias(context).await?),
                false => None,
            },
            qk_norm: match spec.qk_norm {
                true => Some(self.load_qk_norm(context, config.head_dim, offset).await?),
                false => None,
            },
            kv: context.ops.kv_cache(kv_shape)?,
            o_proj: context.plain_matrix(&self.o).await?,
            attention_norm: match spec.post_norms {
                true => {
                    let name = name("post_attention_norm");
                    Some(context.norm(&name, hidden, offset).await?)
                }
                false => None,
            },
            ffn_norm: context.norm(&name("ffn_norm"), hidden, offset).await?,
            gate_up_proj: context.matrix(&self.gate_up, MatrixLayout::GateUp).await?,
            down_proj: context.plain_matrix(&self.down).await?,
            post_ffn_norm: match spec.post_norms {
                true => Some(context.norm(&name("post_ffw_norm"), hidden, offset).await?),
                false => None,
            },
        })
    }

    async fn load_bias<O: Ops, S: ByteSource + ?Sized>(
        &self,
        context: &mut LoadContext<'_, O, S>,
    ) -> Result<O::Vector, ModelsError> {
        let mut bias = Vec::new();
        for (part, stem) in self.qkv.iter().zip(["attn_q", "attn_k", "attn_v"]) {
            let name = format!("{}.{stem}.bias", self.prefix);
            bias.extend(context.values(&name, part.rows).await?);
        }
        let name = format!("{}.attn_qkv.bias", self.prefix);
        Ok(context.ops.vector(&name, &bias)?)
    }

    async fn load_qk_norm<O: Ops, S: ByteSource + ?Sized>(
        &self,
        context: &mut LoadContext<'_, O, S>,
        head_dim: u32,
        offset: f32,
    ) -> Result<O::Vector, ModelsError> {
        let mut weight = Vec::new();
        for stem in ["attn_q_norm", "attn_k_norm"] {
            let name = format!("{}.{stem}.weight", self.prefix);
            weight.extend(context.norm_values(&name, head_dim, offset).await?);
        }
        let name = format!("{}.attn_qk_norm.weight", self.prefix);
        Ok(context.ops.vector(&name, &weight)?)
    }
}
