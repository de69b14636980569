//! Gemma 3, text: norms on both sides of attention and feed-forward and on q and k, GeGLU, scaled embeddings; five of six layers
//! attend to a window and have a rotary embedding of their own.

use foretoken_core::{GluActivation, Ops, RopeStyle};
use foretoken_weights::{ByteSource, TensorConvention};

use crate::{
    ModelsError,
    config::{positive_f32, read_config, read_layers, read_window},
    decoder::{self, Decoder, DecoderSpec, LayerSpec},
    load_context::LoadContext,
    rope::RopeSpec,
};

/// Values of `general.architecture`.
pub(crate) const NAMES: &[&str] = &["gemma3"];

/// Layers of the 27B model, whose queries are scaled by the hidden width a head; GGUF files do not say so.
const LAYERS_OF_27B: u32 = 62;

/// Loads a model of `architecture`, one of [`NAMES`].
pub(crate) async fn load<O: Ops, S: ByteSource + ?Sized>(
    architecture: &str,
    context: &mut LoadContext<'_, O, S>,
) -> Result<Decoder<O>, ModelsError> {
    let gguf = context.gguf;
    let config = read_config(architecture, gguf)?;
    let layers = config.num_hidden_layers;
    let window = read_window(architecture, gguf)?;
    // 1 a layer whose attention slides.
    let sliding = read_layers(
        architecture,
        "attention.sliding_window_pattern",
        gguf,
        layers,
    )?
    .unwrap_or_else(|| {
        // A file that states no window is of a model in which no layer slides.
        let slides = |layer| window.is_some() && layer % 6 != 0;
        (1..=layers).map(slides).collect()
    });
    let local_theta = positive_f32(architecture, "rope.freq_base_swa", gguf)?.unwrap_or(10_000.0);
    let query_scale = positive_f32(architecture, "attention.query_pre_attn_scalar", gguf)?;
    let query_scale = query_scale.map_or_else(
        || match layers {
            LAYERS_OF_27B => f64::from(config.hidden_size) / f64::from(config.num_attention_heads),
            _ => f64::from(config.head_dim),
        },
        f64::from,
    );
    let llama = DecoderSpec::llama(&config, RopeStyle::Halves);
    let global = llama.ropes[0].clone();
    let local = RopeSpec::Plain {
        theta: f64::from(local_theta),
    };
    let layer = |sliding: bool| match sliding {
        true => LayerSpec { rope: 1, window },
        false => LayerSpec {
            rope: 0,
            window: None,
        },
    };
    let spec = DecoderSpec {
        ropes: vec![global, local],
        layers: sliding.into_iter().map(layer).collect(),
        attention_scale: (1.0 / query_scale.sqrt()) as f32,
        activation: GluActivation::GeluTanh,
        embedding_scale: f64::from(config.hidden_size).sqrt() as f32,
        qk_norm: true,
        post_norms: true,
        norm_offset: match gguf.convention {
            TensorConvention::Gguf => 0.0,
            TensorConvention::HuggingFace => 1.0,
        },
        ..llama
    };
    decoder::load(config, spec, context).await
}
