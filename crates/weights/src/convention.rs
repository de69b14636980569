//! [`TensorConvention`]: what the same model's tensors hold differently in the two kinds of files.

/// Who laid the tensors out. Names, shapes and metadata keys are GGUF's in either case; what a tensor holds is not:
///
/// - q and k of llama models: GGUF interleaves the two halves of each head, Hugging Face has one half after the other;
/// - norms of Gemma models: GGUF stores the factor, Hugging Face the factor less 1.
///
/// An architecture that is touched by one of these asks; no other code does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorConvention {
    /// A GGUF converter.
    Gguf,
    /// `save_pretrained` of transformers: a safetensors folder.
    HuggingFace,
}
