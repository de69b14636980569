//! Qwen3 (dense): a llama whose heads of q and k are normalised before RoPE.

use foretoken_core::{Ops, RopeStyle};
use foretoken_weights::ByteSource;

use crate::{
    ModelsError,
    config::{no_window, read_config},
    decoder::{self, Decoder, DecoderSpec},
    load_context::LoadContext,
};

/// Values of `general.architecture`.
pub(crate) const NAMES: &[&str] = &["qwen3"];

/// Loads a model of `architecture`, one of [`NAMES`].
pub(crate) async fn load<O: Ops, S: ByteSource + ?Sized>(
    architecture: &str,
    context: &mut LoadContext<'_, O, S>,
) -> Result<Decoder<O>, ModelsError> {
    let config = read_config(architecture, context.gguf)?;
    no_window(architecture, context.gguf)?;
    let spec = DecoderSpec {
        qk_norm: true,
        ..DecoderSpec::llama(&config, RopeStyle::Halves)
    };
    decoder::load(config, spec, context).await
}
