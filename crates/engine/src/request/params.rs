//! What chat and text completions have in common.

use foretoken_core::{Sampling, TokenId};
use serde_json::Value;

use super::RequestLimits;
use super::fields::{Fields, integer, invalid, list, text};
use super::sampling::sampling;
use crate::{Error, SpeculativeConfig};

/// The most stop strings, and the most characters of one.
const MAX_STOP_STRINGS: usize = 4;
const MAX_STOP_CHARS: usize = 256;
/// The most stop tokens.
const MAX_STOP_TOKENS: usize = 64;
/// The most choices.
const MAX_CHOICES: u32 = 8;

/// Parameters that both endpoints take, validated.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Params {
    pub(crate) model: Option<String>,
    /// `None`: to the context's end.
    pub(crate) max_tokens: Option<u32>,
    /// Without `choice` and `stop_ids`, and with a seed that counts only if `seed` has one.
    pub(crate) sampling: Sampling,
    /// `None`: one is drawn.
    pub(crate) seed: Option<u64>,
    /// Choices, at least 1.
    pub(crate) n: u32,
    pub(crate) stop: Vec<String>,
    pub(crate) stop_token_ids: Vec<TokenId>,
    pub(crate) ignore_eos: bool,
    /// Alternatives to report beside each token; `None`: no log-probabilities.
    pub(crate) logprobs: Option<u32>,
    /// What to draft with, if anything.
    pub(crate) speculation: Option<SpeculativeConfig>,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) return_token_ids: bool,
    pub(crate) return_token_provenance: bool,
}

impl Params {
    /// Takes every field that both endpoints have. `max_completion_tokens` is chat's newer name of `max_tokens`.
    pub(crate) fn parse(
        fields: &mut Fields<'_>,
        limits: &RequestLimits,
        max_completion_tokens: bool,
    ) -> Result<Self, Error> {
        let model = fields.string("model")?.map(str::to_owned);
        let mut max_tokens = fields.integer("max_tokens", 1, limits.context)?;
        if max_completion_tokens {
            let newer = fields.integer("max_completion_tokens", 1, limits.context)?;
            if let (Some(older), Some(newer)) = (max_tokens, newer)
                && older != newer
            {
                return Err(invalid(
                    "max_tokens",
                    format!(
                        "`max_tokens` is {older} and `max_completion_tokens` is {newer}: pass one of them"
                    ),
                ));
            }
            max_tokens = newer.or(max_tokens);
        }
        let mut sampling = sampling(fields, limits.vocab)?;
        fields.refuse_null("min_tokens")?;
        sampling.min_tokens = fields
            .integer("min_tokens", 0, limits.context)?
            .unwrap_or(0);
        if max_tokens.is_some_and(|max| sampling.min_tokens > max) {
            let (min, max) = (sampling.min_tokens, max_tokens.unwrap_or_default());
            return Err(invalid(
                "min_tokens",
                format!("`min_tokens` is {min}, above `max_tokens`, which is {max}"),
            ));
        }
        let seed = fields.bits64("seed")?;
        let n = fields.integer("n", 1, MAX_CHOICES)?.unwrap_or(1);
        let stop = stop_strings(fields)?;
        let stop_token_ids = stop_tokens(fields, limits.vocab)?;
        fields.refuse_null("ignore_eos")?;
        let ignore_eos = fields.flag("ignore_eos")?;
        let speculation =
            SpeculativeConfig::of_request(fields.raw("speculative_config"), limits.speculation)?;
        let stream = fields.flag("stream")?;
        let include_usage = stream_options(fields, stream)?;
        let return_token_ids = fields.flag("return_token_ids")?;
        fields.refuse_null("return_token_provenance")?;
        let return_token_provenance = fields.flag("return_token_provenance")?;
        without_effect(fields)?;
        Ok(Self {
            model,
            max_tokens,
            sampling,
            seed,
            n,
            stop,
            stop_token_ids,
            ignore_eos,
            logprobs: None,
            speculation,
            stream,
            include_usage,
            return_token_ids,
            return_token_provenance,
        })
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
    options.refuse_null("include_usage")?;
    let include_usage = options.flag("include_usage")?;
    options.finish()?;
    Ok(include_usage)
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
