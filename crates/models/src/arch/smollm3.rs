//! SmolLM3: a llama of which every fourth layer has no rotary embedding.

use foretoken_core::Ops;
use foretoken_weights::ByteSource;

use crate::{
    ModelsError,
    config::{no_window, read_config, read_layers},
    decoder::{self, Decoder, DecoderSpec, interleaved},
    load_context::LoadContext,
    rope::RopeSpec,
};

/// Values of `general.architecture`.
pub(crate) const NAMES: &[&str] = &["smollm3"];

/// Loads a model of `architecture`, one of [`NAMES`].
pub(crate) async fn load<O: Ops, S: ByteSource + ?Sized>(
    architecture: &str,
    context: &mut LoadContext<'_, O, S>,
) -> Result<Decoder<O>, ModelsError> {
    let config = read_config(architecture, context.gguf)?;
    no_window(architecture, context.gguf)?;
    // 1 a layer that has RoPE. GGUF files do not say; the published models' fourth, eighth … have none.
    let layers = config.num_hidden_layers;
    let turned = read_layers(architecture, "no_rope_layers", context.gguf, layers)?
        .unwrap_or_else(|| (1..=layers).map(|layer| layer % 4 != 0).collect());
    let mut spec = DecoderSpec::llama(&config, interleaved(context.gguf.convention));
    spec.ropes.push(RopeSpec::None);
    for (layer, turned) in spec.layers.iter_mut().zip(turned) {
        layer.rope = usize::from(!turned);
    }
    decoder::load(config, spec, context).await
}
