//! What chat and text completions have in common.

use foretoken_core::TokenId;
use serde_json::{Value, json};

use super::RequestLimits;
use super::fields::{Fields, integer, invalid, list, text};
use crate::Error;

/// The most stop strings, and the most characters of one.
const MAX_STOP_STRINGS: usize = 4;
const MAX_STOP_CHARS: usize = 256;
/// The most stop tokens.
const MAX_STOP_TOKENS: usize = 64;

/// Parameters that both endpoints take, validated.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Params {
    pub(crate) model: Option<String>,
    /// `None`: to the context's end.
    pub(crate) max_tokens: Option<u32>,
    pub(crate) stop: Vec<String>,
    pub(crate) stop_token_ids: Vec<TokenId>,
    pub(crate) ignore_eos: bool,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) return_token_ids: bool,
}

impl Params {
    pub(crate) fn parse(fields: &mut Fields<'_>, limits: &RequestLimits) -> Result<Self, Error> {
        let model = fields.string("model")?.map(str::to_owned);
        let max_tokens = fields.integer("max_tokens", 1, limits.context)?;
        temperature(fields)?;
        let stop = stop_strings(fields)?;
        let stop_token_ids = stop_tokens(fields, limits.vocab)?;
        let ignore_eos = fields.flag("ignore_eos")?;
        // Greedy decoding draws nothing, so a seed changes nothing: it is checked and kept out.
        fields.bits64("seed")?;
        let stream = fields.flag("stream")?;
        let include_usage = stream_options(fields, stream)?;
        let return_token_ids = fields.flag("return_token_ids")?;
        neutral_only(fields)?;
        without_effect(fields)?;
        Ok(Self {
            model,
            max_tokens,
            stop,
            stop_token_ids,
            ignore_eos,
            stream,
            include_usage,
            return_token_ids,
        })
    }
}

/// Only greedy decoding exists, and nothing but 0 asks for it.
fn temperature(fields: &mut Fields<'_>) -> Result<(), Error> {
    const NOT_BUILT: &str = "sampling is not built yet: pass temperature 0";
    match fields.number("temperature")? {
        Some(0.0) => Ok(()),
        Some(value) if (0.0..=2.0).contains(&value) => Err(invalid(
            "temperature",
            format!("`temperature` is {value}, but {NOT_BUILT}"),
        )),
        Some(value) => Err(invalid(
            "temperature",
            format!("`temperature` is {value}, outside 0..=2"),
        )),
        None => Err(invalid(
            "temperature",
            format!("`temperature` is 1 where it is absent, but {NOT_BUILT}"),
        )),
    }
}

/// `stop`: a string or a list of strings.
fn stop_strings(fields: &mut Fields<'_>) -> Result<Vec<String>, Error> {
    let value = match fields.optional("stop") {
        None => return Ok(Vec::new()),
        Some(value) => value,
    };
    let single = std::slice::from_ref(value);
    let values = if value.is_string() {
        single
    } else {
        list(value, "stop")?
    };
    if values.len() > MAX_STOP_STRINGS {
        let found = values.len();
        return Err(invalid(
            "stop",
            format!("`stop` has {found} strings; at most {MAX_STOP_STRINGS} are taken"),
        ));
    }
    values
        .iter()
        .map(|value| {
            let stop = text(value, "stop")?;
            match stop.chars().count() {
                1..=MAX_STOP_CHARS => Ok(stop.to_owned()),
                found => Err(invalid(
                    "stop",
                    format!(
                        "a string of `stop` has {found} characters, outside 1..={MAX_STOP_CHARS}"
                    ),
                )),
            }
        })
        .collect()
}

/// `stop_token_ids`: ids below the vocabulary.
fn stop_tokens(fields: &mut Fields<'_>, vocab: u32) -> Result<Vec<TokenId>, Error> {
    let Some(value) = fields.optional("stop_token_ids") else {
        return Ok(Vec::new());
    };
    let values = list(value, "stop_token_ids")?;
    if values.len() > MAX_STOP_TOKENS {
        let found = values.len();
        return Err(invalid(
            "stop_token_ids",
            format!("`stop_token_ids` has {found} ids; at most {MAX_STOP_TOKENS} are taken"),
        ));
    }
    values
        .iter()
        .map(|value| integer(value, "stop_token_ids", 0, vocab - 1))
        .collect()
}

/// `stream_options`, whose one member asks for the usage chunk.
fn stream_options(fields: &mut Fields<'_>, stream: bool) -> Result<bool, Error> {
    let Some(value) = fields.optional("stream_options") else {
        return Ok(false);
    };
    if !stream {
        return Err(invalid(
            "stream_options",
            "`stream_options` is only taken together with `stream: true`",
        ));
    }
    let mut options = Fields::new(value, "stream_options")?;
    let include_usage = options.flag("include_usage")?;
    options.finish()?;
    Ok(include_usage)
}

/// Parameters that are not supported yet, with the value that asks for nothing: clients send those
/// without meaning anything by it. Any other value is refused, never ignored.
fn neutral_only(fields: &mut Fields<'_>) -> Result<(), Error> {
    for (field, neutral) in [
        ("n", json!(1)),
        ("top_p", json!(1)),
        ("top_k", json!(0)),
        ("min_p", json!(0)),
        ("presence_penalty", json!(0)),
        ("frequency_penalty", json!(0)),
        ("repetition_penalty", json!(1)),
    ] {
        let value = fields.optional(field);
        if value.is_some_and(|value| value.as_f64() != neutral.as_f64()) {
            return Err(invalid(
                field,
                format!(
                    "`{field}` is not supported yet: leave it out, or pass {neutral}, which changes nothing"
                ),
            ));
        }
    }
    Ok(())
}

/// Parameters of OpenAI's that cannot change an answer.
fn without_effect(fields: &mut Fields<'_>) -> Result<(), Error> {
    for field in [
        "user",
        "service_tier",
        "prompt_cache_key",
        "safety_identifier",
    ] {
        fields.string(field)?;
    }
    fields.flag("store")?;
    match fields.optional("metadata") {
        None | Some(Value::Object(_)) => Ok(()),
        Some(_) => Err(invalid("metadata", "`metadata` must be an object")),
    }
}
