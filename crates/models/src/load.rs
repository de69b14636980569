//! [`load_model`].

use foretoken_core::{LanguageModel, Ops, SequenceSlot};
use foretoken_weights::{ByteSource, Gguf};

use crate::{ModelsError, Quantization, arch, load_context::LoadContext};

/// Positions a sequence's KV cache gets unless told otherwise (and never more than the model has).
pub const DEFAULT_CONTEXT_LENGTH: u32 = 4096;

/// What a caller chooses when loading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadOptions {
    /// Positions a sequence; the smaller of the model's and [`DEFAULT_CONTEXT_LENGTH`] if absent.
    pub context_length: Option<u32>,
    /// Sequences that can be live at once, at least 1.
    pub sequences: SequenceSlot,
    /// What matrices become that are not quantised yet; absent: they stay as the file has them.
    pub quantize: Option<Quantization>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            context_length: None,
            sequences: 1,
            quantize: None,
        }
    }
}

/// Loads the model of `gguf`, whose weights are in `source`, onto `ops`.
///
/// `progress` is called with the bytes of weights loaded so far and in all; the last call has them equal.
/// Weights pass through host memory in small blocks.
///
/// The model believes the rows it is given: tokens below the vocabulary, positions below
/// [`LanguageModel::context_length`], sequences below [`LoadOptions::sequences`]. Whoever calls
/// [`Ops::begin`] has checked them; the ops assert.
///
/// Fails on an architecture that is none of [`architectures`](crate::architectures), on metadata that cannot be or is not supported, on a
/// tensor that is missing, of another shape than the metadata implies or of a format that is not read, on a
/// context length of 0 or beyond the model's, on a model with nothing to quantise that is to be quantised, on a tensor that the
/// architecture has no use for, and on what `ops` cannot hold.
pub async fn load_model<O: Ops + 'static, S: ByteSource + ?Sized>(
    ops: &mut O,
    gguf: &Gguf,
    source: &S,
    options: LoadOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Box<dyn LanguageModel<O>>, ModelsError> {
    load(ops, gguf, Some(source), options, progress).await
}

/// The positions that a model's KV cache gets where none are asked for and all have room: the smaller of the model's and
/// [`DEFAULT_CONTEXT_LENGTH`].
pub fn default_context_length(gguf: &Gguf) -> Result<u32, ModelsError> {
    Ok(trained_context_length(gguf)?.clamp(1, DEFAULT_CONTEXT_LENGTH))
}

/// The positions that a model was trained for: the most that its KV cache can get.
pub fn trained_context_length(gguf: &Gguf) -> Result<u32, ModelsError> {
    let architecture = gguf.metadata.required_str("general.architecture")?;
    let key = format!("{architecture}.context_length");
    Ok(gguf.metadata.required_u32(&key)?)
}

/// Does what [`load_model`] does but for the weights, which are neither read nor uploaded: it fails where that would,
/// as far as the header and the limits of `ops` tell, before a byte of them is there. What it allocates is dropped.
pub async fn plan_model<O: Ops + 'static, S: ByteSource>(
    ops: &mut O,
    gguf: &Gguf,
    options: LoadOptions,
) -> Result<(), ModelsError> {
    load::<O, S>(ops, gguf, None, options, &mut |_, _| {}).await?;
    Ok(())
}

async fn load<O: Ops + 'static, S: ByteSource + ?Sized>(
    ops: &mut O,
    gguf: &Gguf,
    source: Option<&S>,
    options: LoadOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Box<dyn LanguageModel<O>>, ModelsError> {
    assert!(options.sequences > 0, "load_model: no sequences");
    let architecture = gguf
        .metadata
        .required_str("general.architecture")?
        .to_owned();
    if let Some(quantize) = options.quantize {
        quantize.check(gguf)?;
    }
    // The tensors lie in the file side by side, so that the sum is at most its length.
    let total = gguf.tensors.iter().map(|tensor| tensor.bytes).sum();
    progress(0, total);
    let mut context = LoadContext::new(ops, gguf, source, options, total, progress);
    let model = arch::load(&architecture, &mut context).await?;
    context.finish().await?;
    Ok(model)
}
