//! The dimensions that every decoder of the llama family states in its metadata, read and checked.

use foretoken_core::ModelConfig;
use foretoken_weights::{Gguf, Metadata, Value};

use crate::ModelsError;

/// The embedding table, whose rows are the vocabulary.
pub(crate) const EMBEDDING: &str = "token_embd.weight";
/// The head; absent where it is the embedding table.
pub(crate) const OUTPUT: &str = "output.weight";

/// Reads the keys `<architecture>.*` of `gguf`.
///
/// Afterwards nothing is asked for that no architecture here computes, no dimension is 0, heads divide as GQA needs, and every width a matrix takes as input is a
/// multiple of 32, as [`foretoken_core::MatrixPart::cols`] demands.
pub(crate) fn read_config(architecture: &str, gguf: &Gguf) -> Result<ModelConfig, ModelsError> {
    let metadata = &gguf.metadata;
    let key = |name: &str| format!("{architecture}.{name}");
    let required = |name: &str| positive(&key(name), metadata.required_u32(&key(name))?);
    let optional = |name: &str, default: u32| match metadata.u32(&key(name))? {
        Some(value) => positive(&key(name), value),
        None => Ok(default),
    };

    refuse_others(architecture, metadata)?;
    let num_hidden_layers = required("block_count")?;
    // A layer has several; what is allocated a layer is bounded by the file.
    if num_hidden_layers as usize > gguf.tensors.len() {
        let expected = format!("at most its {} tensors", gguf.tensors.len());
        return Err(invalid(&key("block_count"), num_hidden_layers, expected));
    }
    let hidden_size = required("embedding_length")?;
    multiple(&key("embedding_length"), hidden_size, 32)?;
    let intermediate_size = required("feed_forward_length")?;
    multiple(&key("feed_forward_length"), intermediate_size, 32)?;
    let num_attention_heads = required("attention.head_count")?;
    let num_key_value_heads = optional("attention.head_count_kv", num_attention_heads)?;
    if !num_attention_heads.is_multiple_of(num_key_value_heads) {
        return Err(invalid(
            &key("attention.head_count_kv"),
            num_key_value_heads,
            format!("a divisor of the {num_attention_heads} query heads"),
        ));
    }
    let head_dim = read_head_dim(architecture, metadata, hidden_size, num_attention_heads)?;

    let num_experts = metadata.u32(&key("expert_count"))?.unwrap_or(0);
    if num_experts > 0 {
        return Err(unsupported(
            &key("expert_count"),
            num_experts,
            "dense feed-forward layers, 0",
        ));
    }

    // Numbers of metadata are finite.
    let rms_norm_eps = metadata.required_f32(&key("attention.layer_norm_rms_epsilon"))?;
    if rms_norm_eps < 0.0 {
        let expected = "0 or above".to_owned();
        return Err(invalid(
            &key("attention.layer_norm_rms_epsilon"),
            rms_norm_eps,
            expected,
        ));
    }
    let rope_theta = positive_f32(architecture, "rope.freq_base", gguf)?.unwrap_or(10_000.0);

    Ok(ModelConfig {
        model_type: architecture.to_owned(),
        vocab_size: read_vocab_size(architecture, gguf)?,
        hidden_size,
        intermediate_size,
        num_hidden_layers,
        num_attention_heads,
        num_key_value_heads,
        head_dim,
        max_position_embeddings: required("context_length")?,
        rms_norm_eps,
        rope_theta: f64::from(rope_theta),
        tie_word_embeddings: gguf.tensor(OUTPUT).is_none(),
    })
}

/// The width of a head: stated, or the hidden width shared out evenly. Keys and values are equally wide and
/// RoPE turns all of it.
fn read_head_dim(
    architecture: &str,
    metadata: &Metadata,
    hidden_size: u32,
    heads: u32,
) -> Result<u32, ModelsError> {
    let heads_key = format!("{architecture}.attention.head_count");
    let key = format!("{architecture}.attention.key_length");
    let head_dim = match metadata.u32(&key)? {
        Some(head_dim) => positive(&key, head_dim)?,
        None if hidden_size.is_multiple_of(heads) => hidden_size / heads,
        None => {
            return Err(invalid(
                &heads_key,
                heads,
                format!("a divisor of the hidden width {hidden_size}"),
            ));
        }
    };
    if head_dim > 256 {
        return Err(unsupported(&key, head_dim, "heads of at most 256"));
    }
    if !head_dim.is_multiple_of(4) {
        return Err(unsupported(
            &key,
            head_dim,
            "heads whose width is a multiple of 4",
        ));
    }
    match head_dim.checked_mul(heads) {
        // Thrice, so that the width of q, k and v together cannot overflow either.
        Some(width) if width.is_multiple_of(32) && width.checked_mul(3).is_some() => {}
        _ => {
            let expected =
                format!("such that heads of {head_dim} make a width that is a multiple of 32");
            return Err(invalid(&heads_key, heads, expected));
        }
    }
    for name in ["attention.value_length", "rope.dimension_count"] {
        let key = format!("{architecture}.{name}");
        let width = metadata.u32(&key)?.unwrap_or(head_dim);
        if width != head_dim {
            return Err(unsupported(
                &key,
                width,
                &format!("the width of a head, {head_dim}"),
            ));
        }
    }
    Ok(head_dim)
}

/// Rows of the embedding table, which everything that states a vocabulary must agree with.
fn read_vocab_size(architecture: &str, gguf: &Gguf) -> Result<u32, ModelsError> {
    let rows = gguf.required_tensor(EMBEDDING)?.rows();
    // Token ids are 32 bits, and the largest is taken (`TOKEN_ON_DEVICE`).
    let vocab_size = u32::try_from(rows)
        .ok()
        .filter(|&rows| rows < u32::MAX)
        .ok_or_else(|| ModelsError::TensorShape {
            tensor: EMBEDDING.to_owned(),
            expected: "fewer than 4,294,967,295 rows".to_owned(),
            found: format!("{rows} rows"),
        })?;
    // Fewer tokens than rows is usual (padding); more would have no embedding.
    let tokens_key = "tokenizer.ggml.tokens";
    let tokens = gguf
        .metadata
        .string_array(tokens_key)?
        .map_or(0, |tokens| tokens.len());
    if u64::try_from(tokens).is_ok_and(|tokens| tokens > rows) {
        let expected = format!("at most the {vocab_size} rows of `{EMBEDDING}`");
        return Err(invalid(tokens_key, format!("{tokens} tokens"), expected));
    }
    let key = format!("{architecture}.vocab_size");
    match gguf.metadata.u32(&key)? {
        Some(stated) if stated != vocab_size => Err(invalid(
            &key,
            stated,
            format!("the {vocab_size} rows of `{EMBEDDING}`"),
        )),
        _ => Ok(vocab_size),
    }
}

/// The number of `<architecture>.<name>`, which must be above 0; `None` without the key.
pub(crate) fn positive_f32(
    architecture: &str,
    name: &str,
    gguf: &Gguf,
) -> Result<Option<f32>, ModelsError> {
    let key = format!("{architecture}.{name}");
    match gguf.metadata.f32(&key)? {
        Some(value) if value <= 0.0 => Err(invalid(&key, value, "above 0".to_owned())),
        value => Ok(value),
    }
}

/// Positions that layers with a window attend to; `None` where the file states none.
pub(crate) fn read_window(architecture: &str, gguf: &Gguf) -> Result<Option<u32>, ModelsError> {
    let key = format!("{architecture}.attention.sliding_window");
    match gguf.metadata.u32(&key)? {
        Some(window) => positive(&key, window).map(Some),
        None => Ok(None),
    }
}

/// Refuses a file that states a window, of an architecture that has none.
pub(crate) fn no_window(architecture: &str, gguf: &Gguf) -> Result<(), ModelsError> {
    match read_window(architecture, gguf)? {
        None => Ok(()),
        Some(window) => Err(unsupported(
            &format!("{architecture}.attention.sliding_window"),
            window,
            "attention to all positions in this architecture",
        )),
    }
}

/// Numbers that other models are computed with, and what they are where nothing is asked for. Files state some of them always.
const NEUTRAL: [(&str, f32); 8] = [
    ("attn_logit_softcapping", 0.0),
    ("final_logit_softcapping", 0.0),
    ("attention.clamp_kqv", 0.0),
    ("attention.max_alibi_bias", 0.0),
    ("attention.scale", 0.0),
    ("embedding_scale", 1.0),
    ("residual_scale", 1.0),
    ("logit_scale", 1.0),
];

/// Refuses a file that asks for something that no architecture here computes: numbers of [`NEUTRAL`], attention to what comes after.
fn refuse_others(architecture: &str, metadata: &Metadata) -> Result<(), ModelsError> {
    for (name, neutral) in NEUTRAL {
        let key = format!("{architecture}.{name}");
        // 0 stands for nothing asked for in all of them.
        let found = metadata.f32(&key)?.unwrap_or(neutral);
        if found != neutral && found != 0.0 {
            return Err(unsupported(&key, found, &neutral.to_string()));
        }
    }
    let key = format!("{architecture}.attention.causal");
    match metadata.bool(&key)? {
        Some(false) => Err(unsupported(&key, false, "true")),
        _ => Ok(()),
    }
}

/// One flag a layer from `<architecture>.<name>`: an array of as many, or a number n for "all but every nth". `None` without the key.
pub(crate) fn read_layers(
    architecture: &str,
    name: &str,
    gguf: &Gguf,
    layers: u32,
) -> Result<Option<Vec<bool>>, ModelsError> {
    let key = format!("{architecture}.{name}");
    let Some(entry) = gguf.metadata.get(&key) else {
        return Ok(None);
    };
    if let Value::Unsigned(_) | Value::Signed(_) = entry.value {
        let every = positive(&key, gguf.metadata.required_u32(&key)?)?;
        return Ok(Some((1..=layers).map(|layer| layer % every != 0).collect()));
    }
    let flags = match entry.value {
        Value::Numbers(numbers) => numbers.flags(),
        _ => None,
    };
    match flags {
        Some(flags) if flags.size_hint().0 == layers as usize => Ok(Some(flags.collect())),
        _ => {
            let expected = format!("a flag for each of the {layers} layers");
            Err(invalid(&key, entry.value, expected))
        }
    }
}

/// `value`, unless it is 0.
fn positive(key: &str, value: u32) -> Result<u32, ModelsError> {
    if value == 0 {
        Err(invalid(key, value, "at least 1".to_owned()))
    } else {
        Ok(value)
    }
}

/// Fails unless `value` is a multiple of `factor`.
fn multiple(key: &str, value: u32, factor: u32) -> Result<(), ModelsError> {
    if value.is_multiple_of(factor) {
        return Ok(());
    }
    Err(unsupported(key, value, &format!("multiples of {factor}")))
}

fn invalid(key: &str, value: impl ToString, expected: String) -> ModelsError {
    ModelsError::InvalidDimension {
        key: key.to_owned(),
        value: value.to_string(),
        expected,
    }
}

fn unsupported(key: &str, value: impl ToString, supported: &str) -> ModelsError {
    ModelsError::UnsupportedFeature {
        key: key.to_owned(),
        value: value.to_string(),
        supported: format!("supported: {supported}"),
    }
}
