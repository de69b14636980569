//! Llama 1 to 3, Mistral, SmolLM2, TinyLlama: RMSNorm, RoPE, grouped-query attention, SwiGLU.

use foretoken_core::Ops;
use foretoken_weights::ByteSource;

use crate::{
    ModelsError,
    config::{read_config, read_layers, read_window},
    decoder::{self, Decoder, DecoderSpec, interleaved},
    load_context::LoadContext,
};

/// Values of `general.architecture`.
pub(crate) const NAMES: &[&str] = &["llama"];

/// Loads a model of `architecture`, one of [`NAMES`].
pub(crate) async fn load<O: Ops, S: ByteSource + ?Sized>(
    architecture: &str,
    context: &mut LoadContext<'_, O, S>,
) -> Result<Decoder<O>, ModelsError> {
    let config = read_config(architecture, context.gguf)?;
    let mut spec = DecoderSpec::llama(&config, interleaved(context.gguf.convention));
    // The first Mistral's.
    let window = read_window(architecture, context.gguf)?;
    // 1 a layer whose attention slides; all of them where nothing is said.
    let key = "attention.sliding_window_pattern";
    let layers = config.num_hidden_layers;
    let sliding = read_layers(architecture, key, context.gguf, layers)?;
    let sliding = sliding.unwrap_or_else(|| vec![true; layers as usize]);
    for (layer, slides) in spec.layers.iter_mut().zip(sliding) {
        layer.window = window.filter(|_| slides);
    }
    decoder::load(config, spec, context).await
}
