//! What a model file holds, from its header alone.

use std::collections::BTreeMap;

use foretoken_models::{DEFAULT_CONTEXT_LENGTH, architectures};
use foretoken_text::Tokenizer;
use foretoken_weights::{ByteSource, Gguf, Metadata};
use serde::Serialize;

use crate::Error;
use crate::vocabulary::vocabulary_spec;

/// A model file, read as far as its header.
#[derive(Debug, Clone, Serialize)]
pub struct ModelReport {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// The GGUF version.
    pub gguf_version: u32,
    /// `general.name`.
    pub name: Option<String>,
    /// `general.architecture`.
    pub architecture: Option<String>,
    /// The dimensions the file states, by the last part of their keys (`embedding_length` …).
    pub dimensions: BTreeMap<&'static str, u32>,
    /// `tokenizer.ggml.model` and `tokenizer.ggml.pre`.
    pub tokenizer: [Option<String>; 2],
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// Whether there is a chat template that can be used.
    pub chat: bool,
    /// Tensors.
    pub tensors: usize,
    /// Bytes of all tensors in the file.
    pub weight_bytes: u64,
    /// Bytes of the largest tensor in the file.
    pub largest_tensor_bytes: u64,
    /// How the tensors are stored.
    pub formats: Vec<FormatReport>,
    /// Bytes of keys and values in f32, for the context that is taken by default; where the dimensions are
    /// stated.
    pub kv_cache_bytes: Option<u64>,
    /// What keeps this build from loading it, one line each. Tensor shapes are checked at loading.
    pub problems: Vec<String>,
    /// What does not keep it from loading.
    pub remarks: Vec<String>,
}

/// The tensors of one format.
#[derive(Debug, Clone, Serialize)]
pub struct FormatReport {
    /// Its name in ggml.
    pub name: String,
    /// How many tensors.
    pub tensors: usize,
    /// Their bytes in the file.
    pub bytes: u64,
}

/// The keys that are shown, below the architecture's name.
const DIMENSIONS: [&str; 7] = [
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "block_count",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
];

/// Reads the header of a model file and says what it holds.
///
/// # Errors
/// If it is no GGUF file or a damaged one. What merely cannot be run is in [`ModelReport::problems`].
pub async fn inspect<S: ByteSource + ?Sized>(source: &S) -> Result<ModelReport, Error> {
    let gguf = Gguf::read(source).await?;
    let text = |key| -> Option<String> { gguf.metadata.str(key).ok().flatten().map(printable) };
    let architecture = text("general.architecture");
    let mut problems = Vec::new();
    let mut remarks = Vec::new();

    match &architecture {
        None => problems.push("metadata key `general.architecture` is missing".to_owned()),
        Some(name) if !architectures().any(|known| known == name) => {
            let known: Vec<&str> = architectures().collect();
            problems.push(format!(
                "architecture {name} is not supported; this build loads {}",
                known.join(", ")
            ));
        }
        Some(_) => {}
    }
    let mut formats: BTreeMap<u32, FormatReport> = BTreeMap::new();
    for tensor in &gguf.tensors {
        let format = formats.entry(tensor.stored.0).or_insert_with(|| {
            if let Err(error) = tensor.format() {
                problems.push(error.to_string());
            }
            FormatReport {
                name: tensor.stored.name(),
                tensors: 0,
                bytes: 0,
            }
        });
        format.tensors += 1;
        format.bytes = format.bytes.saturating_add(tensor.bytes);
    }
    let mut chat = false;
    match vocabulary_spec(&gguf)
        .map_err(Error::from)
        .and_then(|spec| Ok(Tokenizer::new(spec)?))
    {
        Ok(tokenizer) => match tokenizer.chat_template() {
            Ok(_) => chat = true,
            Err(error) => remarks.push(error.to_string()),
        },
        Err(error) => problems.push(error.to_string()),
    }
    let dimensions = dimensions(&gguf.metadata, architecture.as_deref().unwrap_or_default());
    let tokens = gguf
        .metadata
        .string_array("tokenizer.ggml.tokens")
        .ok()
        .flatten();
    Ok(ModelReport {
        file_bytes: source.len(),
        gguf_version: gguf.version,
        name: text("general.name"),
        tokenizer: [text("tokenizer.ggml.model"), text("tokenizer.ggml.pre")],
        vocabulary: tokens.map_or(0, |tokens| tokens.len()),
        chat,
        tensors: gguf.tensors.len(),
        weight_bytes: gguf.tensors.iter().map(|tensor| tensor.bytes).sum(),
        largest_tensor_bytes: gguf
            .tensors
            .iter()
            .map(|tensor| tensor.bytes)
            .max()
            .unwrap_or(0),
        formats: formats.into_values().collect(),
        kv_cache_bytes: kv_cache_bytes(&dimensions),
        architecture,
        dimensions,
        problems,
        remarks,
    })
}

fn dimensions(metadata: &Metadata, architecture: &str) -> BTreeMap<&'static str, u32> {
    let value = |name: &str| {
        metadata
            .u32(&format!("{architecture}.{name}"))
            .ok()
            .flatten()
    };
    DIMENSIONS
        .into_iter()
        .filter_map(|name| Some((name, value(name)?)))
        .collect()
}

/// Two caches a layer, f32.
fn kv_cache_bytes(dimensions: &BTreeMap<&'static str, u32>) -> Option<u64> {
    let get = |name| dimensions.get(name).copied();
    let heads = get("attention.head_count")?;
    let kv_heads = get("attention.head_count_kv").unwrap_or(heads);
    let head_dim = match get("attention.key_length") {
        Some(head_dim) => head_dim,
        None => get("embedding_length")?.checked_div(heads)?,
    };
    let context = get("context_length")?.min(DEFAULT_CONTEXT_LENGTH);
    [get("block_count")?, context, kv_heads, head_dim]
        .into_iter()
        .try_fold(2 * 4, |product: u64, factor| {
            product.checked_mul(u64::from(factor))
        })
}

/// Text from a file, on one line and not too long.
fn printable(text: &str) -> String {
    text.chars().take(96).flat_map(char::escape_debug).collect()
}
