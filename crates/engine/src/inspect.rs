//! What a model file holds, from its header alone.

use std::collections::{BTreeMap, BTreeSet};

use foretoken_core::TokenId;
use foretoken_models::{Quantization, architectures, is_not_for_text};
use foretoken_text::Tokenizer;
use foretoken_weights::{ByteSource, Gguf, Metadata, TensorConvention, TensorInfo};
use serde::Serialize;

use crate::Error;
use crate::answer_parts::{THINK_CLOSES, TOOL_CALL_OPENS};
use crate::prompt::is_token;
use crate::tokenizer::read_tokenizer;

/// A model file, read as far as its header.
#[derive(Debug, Clone, Serialize)]
pub struct ModelReport {
    /// Bytes of the file, or of a folder's files.
    pub file_bytes: u64,
    /// The GGUF version; absent of a safetensors folder.
    pub gguf_version: Option<u32>,
    /// `general.name`.
    pub name: Option<String>,
    /// `general.architecture`.
    pub architecture: Option<String>,
    /// The dimensions the file states, by the last part of their keys (`embedding_length` …).
    pub dimensions: BTreeMap<&'static str, u32>,
    /// `tokenizer.ggml.model` and `tokenizer.ggml.pre`; of a folder `tokenizer.json`, and nothing.
    pub tokenizer: [Option<String>; 2],
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// The tokens that mean something to the engine; absent of a tokenizer that cannot be read.
    pub special_tokens: Option<SpecialTokens>,
    /// Whether there is a chat template that can be used.
    pub chat: bool,
    /// What that template takes and writes.
    pub template: Option<TemplateReport>,
    /// How RoPE is stretched, where it is.
    pub rope_scaling: Option<RopeScaling>,
    /// Positions that layers with a window attend to.
    pub sliding_window: Option<u32>,
    /// Tensors.
    pub tensors: usize,
    /// Bytes of all tensors in the file.
    pub weight_bytes: u64,
    /// Bytes of all tensors as they are loaded, quantised where that was asked for.
    pub loaded_bytes: u64,
    /// Bytes of the largest tensor in the file.
    pub largest_tensor_bytes: u64,
    /// How the tensors are stored.
    pub formats: Vec<FormatReport>,
    /// What keeps this build from loading it, one line each. Names and shapes of tensors are checked by [`plan`](crate::plan) and at loading.
    pub problems: Vec<String>,
    /// What does not keep it from loading.
    pub remarks: Vec<String>,
}

/// The tokens that begin and end texts.
#[derive(Debug, Clone, Serialize)]
pub struct SpecialTokens {
    /// What texts begin with, where the vocabulary has such a token.
    pub bos: Option<TokenReport>,
    /// Whether the tokenizer puts it before a text. A chat template writes its own.
    pub adds_bos: bool,
    /// Whether the tokenizer puts the end's token behind a text.
    pub adds_eos: bool,
    /// Those that end an answer.
    pub end_of_generation: Vec<TokenReport>,
}

/// A token.
#[derive(Debug, Clone, Serialize)]
pub struct TokenReport {
    /// Its number.
    pub id: TokenId,
    /// Its spelling.
    pub text: String,
}

/// A chat template, as far as its text tells.
#[derive(Debug, Clone, Serialize)]
pub struct TemplateReport {
    /// Bytes of its text.
    pub bytes: usize,
    /// The control tokens of the vocabulary that it writes, of those that are known to open messages.
    pub marks: Vec<&'static str>,
    /// Whether it shows tools to the model.
    pub tools: bool,
    /// Whether calls of tools are told apart in answers (`<tool_call>`).
    pub tool_calls: bool,
    /// Whether reasoning is told apart in answers (`<think>`).
    pub reasoning: bool,
    /// Whether it asks for `enable_thinking`.
    pub enable_thinking: bool,
}

/// What a file says of RoPE beyond its base.
#[derive(Debug, Clone, Serialize)]
pub struct RopeScaling {
    /// `linear`, `yarn` …; or that there are divisors a pair.
    pub kind: String,
    /// By how much.
    pub factor: Option<f32>,
    /// Positions that the model was trained for before it was stretched.
    pub original_context_length: Option<u32>,
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

/// Reads the header of a model, a GGUF file or a folder, and says what it holds, and what it would be with `quantize`.
///
/// # Errors
/// If it is no GGUF file, no folder, or a damaged one; or a folder whose configuration this build cannot make a model of. What merely cannot be run is in [`ModelReport::problems`].
pub async fn inspect<S: ByteSource + ?Sized>(
    source: &S,
    quantize: Option<Quantization>,
) -> Result<ModelReport, Error> {
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
    let mut unreadable = BTreeSet::new();
    for tensor in &gguf.tensors {
        if let Err(error) = tensor.format()
            && !is_not_for_text(&tensor.name)
            && unreadable.insert(tensor.stored.0)
        {
            problems.push(error.to_string());
        }
        let format = formats
            .entry(tensor.stored.0)
            .or_insert_with(|| FormatReport {
                name: tensor.stored.name(),
                tensors: 0,
                bytes: 0,
            });
        format.tensors += 1;
        format.bytes = format.bytes.saturating_add(tensor.bytes);
    }
    let mut template = None;
    let mut special_tokens = None;
    let mut vocabulary = 0;
    match read_tokenizer(source, &gguf).await {
        Ok(tokenizer) => {
            vocabulary = tokenizer.vocabulary() as usize;
            special_tokens = Some(special(&tokenizer));
            match tokenizer.chat_template() {
                Ok(_) => template = Some(template_report(&tokenizer)?),
                Err(error) => remarks.push(error.to_string()),
            }
        }
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
        gguf_version: match gguf.convention {
            TensorConvention::Gguf => Some(gguf.version),
            TensorConvention::HuggingFace => None,
        },
        name: text("general.name"),
        tokenizer: match gguf.convention {
            TensorConvention::Gguf => [text("tokenizer.ggml.model"), text("tokenizer.ggml.pre")],
            TensorConvention::HuggingFace => [Some("tokenizer.json".to_owned()), None],
        },
        vocabulary: tokens.map_or(vocabulary, |tokens| tokens.len()),
        special_tokens,
        chat: template.is_some(),
        template,
        rope_scaling: rope_scaling(&gguf, architecture.as_deref().unwrap_or_default()),
        sliding_window: value(&gguf.metadata, &architecture, "attention.sliding_window"),
        tensors: gguf.tensors.len(),
        weight_bytes: gguf.tensors.iter().map(|tensor| tensor.bytes).sum(),
        loaded_bytes: gguf
            .tensors
            .iter()
            .map(|tensor| loaded_bytes(tensor, quantize))
            .fold(0, u64::saturating_add),
        largest_tensor_bytes: gguf
            .tensors
            .iter()
            .map(|tensor| tensor.bytes)
            .max()
            .unwrap_or(0),
        formats: formats.into_values().collect(),
        architecture,
        dimensions,
        problems,
        remarks,
    })
}

/// Bytes of a tensor as it is loaded.
fn loaded_bytes(tensor: &TensorInfo, quantize: Option<Quantization>) -> u64 {
    let quantized = || {
        let stored = tensor.format().ok()?;
        let row = quantize?.format(tensor, stored).row_bytes(tensor.cols())?;
        row.checked_mul(tensor.rows())
    };
    match tensor.rows() {
        // Vectors are loaded as numbers.
        1 => tensor.bytes,
        _ => quantized().unwrap_or(tensor.bytes),
    }
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

/// A number below the architecture's name.
fn value(metadata: &Metadata, architecture: &Option<String>, name: &str) -> Option<u32> {
    let key = format!("{}.{name}", architecture.as_ref()?);
    metadata.u32(&key).ok().flatten()
}

fn special(tokenizer: &Tokenizer) -> SpecialTokens {
    let token = |id: TokenId| TokenReport {
        id,
        text: printable(&String::from_utf8_lossy(tokenizer.token_bytes(id))),
    };
    SpecialTokens {
        bos: tokenizer.bos().map(token),
        adds_bos: tokenizer.adds_bos(),
        adds_eos: tokenizer.adds_eos(),
        end_of_generation: tokenizer
            .end_of_generation()
            .iter()
            .map(|&id| token(id))
            .collect(),
    }
}

/// What opens a message in the templates in use.
const MESSAGE_MARKS: [&str; 6] = [
    "<|im_start|>",
    "<|start_header_id|>",
    "<start_of_turn>",
    "[INST]",
    "<|user|>",
    "<|start|>",
];

fn template_report(tokenizer: &Tokenizer) -> Result<TemplateReport, Error> {
    let source = tokenizer.chat_template().map_err(Error::Template)?.source();
    // A second template that cannot be parsed is an error of requests with tools alone.
    let for_tools = tokenizer.chat_template_for(true).ok();
    let shows = |text: &str| for_tools.is_some_and(|template| template.source().contains(text));
    let marks = MESSAGE_MARKS
        .into_iter()
        .filter(|mark| source.contains(mark));
    Ok(TemplateReport {
        bytes: source.len(),
        marks: marks.collect(),
        tools: shows("tools"),
        tool_calls: shows(TOOL_CALL_OPENS),
        reasoning: is_token(tokenizer, THINK_CLOSES)? || source.contains(THINK_CLOSES),
        enable_thinking: source.contains("enable_thinking"),
    })
}

fn rope_scaling(gguf: &Gguf, architecture: &str) -> Option<RopeScaling> {
    let key = |name: &str| format!("{architecture}.rope.scaling.{name}");
    let kind = gguf.metadata.str(&key("type")).ok().flatten();
    let factor = gguf.metadata.f32(&key("factor")).ok().flatten();
    let divisors = gguf
        .tensors
        .iter()
        .any(|tensor| tensor.name.starts_with("rope_"));
    let kind = match (kind, factor, divisors) {
        (Some("none"), _, false) | (None, None, false) => return None,
        (Some("none") | None, None, true) => "a divisor a pair".to_owned(),
        (Some(kind), _, _) => printable(kind),
        (None, _, _) => "linear".to_owned(),
    };
    Some(RopeScaling {
        kind,
        factor,
        original_context_length: gguf
            .metadata
            .u32(&key("original_context_length"))
            .ok()
            .flatten(),
    })
}

/// Text from a file, on one line and not too long.
fn printable(text: &str) -> String {
    text.chars().take(96).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use foretoken_weights::BytesSource;
    use foretoken_weights::forge::Forge;

    use super::*;

    #[test]
    fn formats_are_a_problem_of_what_is_loaded_alone() {
        // A format of 66 bytes for 256 weights that is not read.
        const IQ2_XXS: u32 = 16;
        let problems = |names: &[&str]| {
            let mut forge = Forge::new().metadata("general.architecture", "llama");
            for name in names {
                forge = forge.tensor(name, &[256], IQ2_XXS, &[0; 66]);
            }
            let source = BytesSource(forge.build().bytes);
            let report = pollster::block_on(inspect(&source, None)).unwrap();
            assert_eq!(report.formats[0].tensors, names.len());
            let is_format = |problem: &&String| problem.contains("IQ2_XXS");
            report.problems.iter().filter(is_format).count()
        };
        assert_eq!(problems(&["v.blk.0.ffn_up.weight"]), 0);
        // Once a format.
        let names = [
            "v.blk.0.ffn_up.weight",
            "blk.0.ffn_up.weight",
            "blk.0.ffn_down.weight",
        ];
        assert_eq!(problems(&names), 1);
    }
}
