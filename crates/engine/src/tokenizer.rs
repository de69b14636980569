//! The tokenizer of a model, whatever files it comes in.

use foretoken_core::TokenId;
use foretoken_text::Tokenizer;
use foretoken_weights::{ByteSource, CONFIG_BYTES, Folder, Gguf, WeightsError};
use serde_json::Value;

use crate::Error;
use crate::vocabulary::vocabulary_spec;

/// The most bytes of a `tokenizer.json`; the largest in use have some 40 MB.
const TOKENIZER_BYTES: u64 = 256 << 20;
/// The most bytes of a `tokenizer_config.json` and of a chat template's file.
const TEXT_BYTES: u64 = 16 << 20;

/// The tokenizer and chat template of a GGUF file, from its metadata; or of a folder, from its JSON files.
pub(crate) async fn read_tokenizer<S: ByteSource + ?Sized>(
    source: &S,
    gguf: &Gguf,
) -> Result<Tokenizer, Error> {
    match Folder::of(source)? {
        None => Ok(Tokenizer::new(vocabulary_spec(gguf)?)?),
        Some(folder) => of_folder(&folder).await,
    }
}

async fn of_folder<S: ByteSource + ?Sized>(folder: &Folder<'_, S>) -> Result<Tokenizer, Error> {
    let name = "tokenizer.json";
    let json = folder.read(name, TOKENIZER_BYTES).await?;
    let json = json.ok_or_else(|| WeightsError::NotFound {
        path: folder.path(name),
    })?;
    let config = folder.read("tokenizer_config.json", TEXT_BYTES).await?;
    let mut tokenizer = Tokenizer::from_json(&json, config.as_deref())?;
    drop(json);
    let name = "chat_template.jinja";
    if let Some(bytes) = folder.read(name, TEXT_BYTES).await? {
        let template = String::from_utf8(bytes).map_err(|_| {
            let problem = "is no UTF-8 text".to_owned();
            malformed(&folder.path(name), "the template", problem)
        })?;
        tokenizer = tokenizer.with_chat_template(template);
    }
    // As transformers, which takes the model's own where there is no file of its own for it.
    for name in ["generation_config.json", "config.json"] {
        if let Some(bytes) = folder.read(name, CONFIG_BYTES).await? {
            let ends = end_ids(&folder.path(name), &bytes)?;
            return Ok(tokenizer.with_end_of_generation(&ends));
        }
    }
    Ok(tokenizer)
}

/// `eos_token_id`, a number or several.
fn end_ids(file: &str, json: &[u8]) -> Result<Vec<TokenId>, WeightsError> {
    let config: Value = serde_json::from_slice(json)
        .map_err(|error| malformed(file, "the file", format!("cannot be read: {error}")))?;
    let ids = match &config["eos_token_id"] {
        Value::Null => &[],
        Value::Array(ids) => &ids[..],
        id => std::slice::from_ref(id),
    };
    let id = |id: &Value| id.as_u64().and_then(|id| TokenId::try_from(id).ok());
    let ids: Option<Vec<TokenId>> = ids.iter().map(id).collect();
    ids.ok_or_else(|| {
        let problem = "must be a token's id or an array of such".to_owned();
        malformed(file, "`eos_token_id`", problem)
    })
}

fn malformed(file: &str, place: &str, problem: String) -> WeightsError {
    WeightsError::Malformed {
        file: file.to_owned(),
        place: place.to_owned(),
        problem,
    }
}
