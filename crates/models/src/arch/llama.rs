//! Llama 1 to 3, Mistral, SmolLM2, TinyLlama: RMSNorm, RoPE, grouped-query attention, SwiGLU.

use foretoken_core::Ops;
use foretoken_weights::ByteSource;

use crate::{
    ModelsError,
    config::{read_config, read_window},
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
    for layer in &mut spec.layers {
        layer.window = window;
    }
    decoder::load(config, spec, context).await
}
