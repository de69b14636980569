//! Speculation: what a caller configures, what a request may change of it, and whether it runs.

use foretoken_core::{MatchOrder, NgramLookup};
use foretoken_decode::drafters::SuffixOptions;
use serde::Serialize;
use serde_json::Value;

use crate::Error;
use crate::request::{Fields, Range, invalid, kind, text};

/// The most tokens a step may draft: a verify pass has 16 rows.
pub const MAX_SPECULATIVE_TOKENS: u32 = 15;
/// The longest n-gram that is looked up.
pub const MAX_PROMPT_LOOKUP: u32 = 64;
/// The deepest that suffixes are counted.
pub const MAX_SUFFIX_TREE_DEPTH: u32 = 256;
/// The most drafts a matched token may stand for.
const MAX_SUFFIX_SPEC_FACTOR: f64 = 1000.0;
/// The most answers that may be asked to be kept; their tokens are bounded besides.
const MAX_CACHED_REQUESTS: u32 = i32::MAX as u32;
/// vLLM's length of the n-grams where none is given.
const DEFAULT_PROMPT_LOOKUP: u32 = 5;

/// `speculative_config` of an engine, with vLLM's names; or a request's, which overrides it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeculativeConfig {
    /// Who drafts.
    pub method: SpeculativeMethod,
    /// The most a step drafts, 1..=15.
    pub num_speculative_tokens: u32,
    /// The shortest n-gram looked up, at least 1.
    pub prompt_lookup_min: u32,
    /// The longest.
    pub prompt_lookup_max: u32,
    /// Which of several occurrences is continued.
    pub prompt_lookup_match: MatchOrder,
    /// The keys that begin with `suffix_decoding_`.
    pub suffix: SuffixOptions,
    /// Whether a step drafts as many tokens as pay, up to `num_speculative_tokens`; otherwise it drafts that many always.
    pub adaptive: bool,
}

/// Who drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpeculativeMethod {
    /// What followed the last n-gram where it occurred before.
    Ngram,
    /// What followed the last tokens most often, in earlier answers too.
    Suffix,
    /// A second model.
    DraftModel,
    /// In each step the one of these with the most expected tokens a second.
    Auto,
}

/// Keys that not every method has.
const KEYS_OF_METHODS: [&str; 7] = [
    "prompt_lookup_min",
    "prompt_lookup_max",
    "prompt_lookup_match",
    "suffix_decoding_max_tree_depth",
    "suffix_decoding_max_cached_requests",
    "suffix_decoding_max_spec_factor",
    "suffix_decoding_min_token_prob",
];

impl SpeculativeMethod {
    /// Its name in `speculative_config`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ngram => "ngram",
            Self::Suffix => "suffix",
            Self::DraftModel => "draft_model",
            Self::Auto => "auto",
        }
    }

    /// Whether a draft model may take part.
    pub fn may_have_a_model(self) -> bool {
        matches!(self, Self::DraftModel | Self::Auto)
    }

    /// Whether what followed in earlier answers is looked up, and an answer is kept for later ones.
    pub(crate) fn looks_in_earlier_answers(self) -> bool {
        matches!(self, Self::Suffix | Self::Auto)
    }

    /// Whether it has a key of [`KEYS_OF_METHODS`].
    fn takes(self, key: &str) -> bool {
        match self {
            Self::Ngram => key.starts_with("prompt_lookup_"),
            Self::Suffix => key.starts_with("suffix_decoding_"),
            Self::DraftModel => false,
            Self::Auto => true,
        }
    }

    /// Refuses the keys of other methods.
    fn refuse_others(self, fields: &mut Fields<'_>) -> Result<(), Error> {
        for key in KEYS_OF_METHODS {
            if fields.optional(key).is_some() && !self.takes(key) {
                let (name, method) = (fields.name(key), self.name());
                return Err(invalid(
                    &name,
                    format!("`{name}` is no key of method {method:?}: leave it out"),
                ));
            }
        }
        Ok(())
    }
}

impl From<SpeculativeConfig> for NgramLookup {
    fn from(config: SpeculativeConfig) -> Self {
        Self {
            min: config.prompt_lookup_min,
            max: config.prompt_lookup_max,
            order: config.prompt_lookup_match,
        }
    }
}

/// Whether speculation runs, for programs: in an engine's information.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpeculationStatus {
    /// Whether requests draft, unless they say otherwise.
    pub active: bool,
    /// Who drafts; null where no speculation was asked for.
    pub method: Option<SpeculativeMethod>,
    /// Why it does not run although it was asked for.
    pub reason: Option<String>,
    /// The name of the draft model, where one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
    /// Where its vocabulary is another than the target's: the part of a sample text that both write in the same tokens, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_mapped_share: Option<f32>,
    /// Why that is not in use, where it is not: whoever drafts in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_problem: Option<String>,
}

impl SpeculativeConfig {
    /// Reads an engine's configuration.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] naming the key: an unknown one, an impossible value, or a method that this build lacks.
    pub fn parse(value: &Value) -> Result<Self, Error> {
        Ok(Self::parse_with_model(value)?.0)
    }

    /// Reads the same, and the key `model`, which names a draft model: whoever loads the engine knows where that is.
    ///
    /// # Errors
    /// As [`SpeculativeConfig::parse`]; `model` beside a method that has no draft model.
    pub fn parse_with_model(value: &Value) -> Result<(Self, Option<String>), Error> {
        let mut fields = Fields::new(value, NAME)?;
        let method_name = fields.name("method");
        let method = method(
            text(fields.required("method")?, &method_name)?,
            &method_name,
        )?;
        let count_name = fields.name("num_speculative_tokens");
        let count = fields.integer("num_speculative_tokens", 1, MAX_SPECULATIVE_TOKENS)?;
        let count = count.ok_or_else(|| {
            invalid(
                &count_name,
                format!("`{count_name}` is required, within 1..={MAX_SPECULATIVE_TOKENS}"),
            )
        })?;
        method.refuse_others(&mut fields)?;
        let (min, max) = lookup(&mut fields)?;
        let config = Self {
            method,
            num_speculative_tokens: count,
            prompt_lookup_min: min.or(max).unwrap_or(DEFAULT_PROMPT_LOOKUP),
            prompt_lookup_max: max.or(min).unwrap_or(DEFAULT_PROMPT_LOOKUP),
            prompt_lookup_match: match_order(&mut fields)?.unwrap_or(MatchOrder::Earliest),
            suffix: suffix(&mut fields, SuffixOptions::default(), None)?,
            adaptive: fields.optional_flag("adaptive")?.unwrap_or(true),
        };
        let model_name = fields.name("model");
        let model = fields.string("model")?.map(str::to_owned);
        fields.finish()?;
        if model.is_some() && !method.may_have_a_model() {
            return Err(invalid(
                &model_name,
                format!("`{model_name}` is for the methods \"draft_model\" and \"auto\""),
            ));
        }
        Ok((config.check()?, model))
    }

    /// What a request with `speculative_config` drafts with: `null` or `false` switch speculation off, an object
    /// changes what it names. `engine` is the engine's own configuration.
    pub(crate) fn of_request(
        value: Option<&Value>,
        engine: Option<Self>,
    ) -> Result<Option<Self>, Error> {
        let value = match value {
            None => return Ok(engine),
            Some(Value::Null | Value::Bool(false)) => return Ok(None),
            Some(value @ Value::Object(_)) => value,
            Some(other) => {
                return Err(invalid(
                    NAME,
                    format!(
                        "`{NAME}` must be an object, or null or false to switch speculation off, not {}",
                        kind(other)
                    ),
                ));
            }
        };
        let Some(engine) = engine else {
            return Err(invalid(
                NAME,
                format!("`{NAME}` cannot be passed: this engine was loaded without speculation"),
            ));
        };
        let mut fields = Fields::new(value, NAME)?;
        let model_name = fields.name("model");
        if fields.raw("model").is_some() {
            return Err(invalid(
                &model_name,
                format!("`{model_name}` cannot be passed: a draft model is loaded with the engine"),
            ));
        }
        let name = fields.name("method");
        let asked = fields.string("method")?;
        let method = asked.map_or(Ok(engine.method), |asked| method(asked, &name))?;
        let count = fields.integer("num_speculative_tokens", 1, engine.num_speculative_tokens)?;
        method.refuse_others(&mut fields)?;
        let (min, max) = lookup(&mut fields)?;
        let config = Self {
            method,
            num_speculative_tokens: count.unwrap_or(engine.num_speculative_tokens),
            prompt_lookup_min: min.unwrap_or(engine.prompt_lookup_min),
            prompt_lookup_max: max.unwrap_or(engine.prompt_lookup_max),
            prompt_lookup_match: match_order(&mut fields)?.unwrap_or(engine.prompt_lookup_match),
            suffix: suffix(&mut fields, engine.suffix, Some(engine.suffix))?,
            adaptive: fields.optional_flag("adaptive")?.unwrap_or(engine.adaptive),
        };
        fields.finish()?;
        config.check().map(Some)
    }

    fn check(self) -> Result<Self, Error> {
        let (min, max) = (self.prompt_lookup_min, self.prompt_lookup_max);
        if min > max {
            let name = format!("{NAME}.prompt_lookup_min");
            return Err(invalid(
                &name,
                format!("`{name}` is {min}, above prompt_lookup_max, which is {max}"),
            ));
        }
        if self.method == SpeculativeMethod::Auto && !self.adaptive {
            let name = format!("{NAME}.adaptive");
            return Err(invalid(
                &name,
                format!(
                    "`{name}` cannot be false with the method \"auto\", which chooses by what pays"
                ),
            ));
        }
        Ok(self)
    }
}

const NAME: &str = "speculative_config";

fn method(method: &str, name: &str) -> Result<SpeculativeMethod, Error> {
    match method {
        "ngram" => Ok(SpeculativeMethod::Ngram),
        "suffix" => Ok(SpeculativeMethod::Suffix),
        "draft_model" => Ok(SpeculativeMethod::DraftModel),
        "auto" => Ok(SpeculativeMethod::Auto),
        other => {
            let other: String = other.chars().take(64).collect();
            Err(invalid(
                name,
                format!(
                    "`{name}` is {other:?}, but only \"ngram\", \"suffix\", \"draft_model\" and \"auto\" are taken"
                ),
            ))
        }
    }
}

fn lookup(fields: &mut Fields<'_>) -> Result<(Option<u32>, Option<u32>), Error> {
    let min = fields.integer("prompt_lookup_min", 1, MAX_PROMPT_LOOKUP)?;
    let max = fields.integer("prompt_lookup_max", 1, MAX_PROMPT_LOOKUP)?;
    Ok((min, max))
}

fn match_order(fields: &mut Fields<'_>) -> Result<Option<MatchOrder>, Error> {
    let name = fields.name("prompt_lookup_match");
    match fields.string("prompt_lookup_match")? {
        None => Ok(None),
        Some("earliest") => Ok(Some(MatchOrder::Earliest)),
        Some("latest") => Ok(Some(MatchOrder::Latest)),
        Some(other) => {
            let other: String = other.chars().take(64).collect();
            Err(invalid(
                &name,
                format!("`{name}` is {other:?}; \"earliest\" and \"latest\" are taken"),
            ))
        }
    }
}

/// The keys of suffix decoding. `engine`: in a request, what the engine was configured with. Its earlier answers are counted
/// as deep as that, and are kept or not; a request can only do without them.
fn suffix(
    fields: &mut Fields<'_>,
    default: SuffixOptions,
    engine: Option<SuffixOptions>,
) -> Result<SuffixOptions, Error> {
    let deepest = engine.map_or(MAX_SUFFIX_TREE_DEPTH, |engine| engine.max_tree_depth);
    let depth = fields.integer("suffix_decoding_max_tree_depth", 1, deepest)?;
    let cached = fields.integer(CACHED_REQUESTS, 0, MAX_CACHED_REQUESTS)?;
    let factor = Range::within(0.0, MAX_SUFFIX_SPEC_FACTOR);
    let factor = fields.number("suffix_decoding_max_spec_factor", factor)?;
    let probability = Range::within(0.0, 1.0);
    let probability = fields.number("suffix_decoding_min_token_prob", probability)?;
    let kept = engine.map(|engine| engine.max_cached_requests);
    if let (Some(cached @ 1..), Some(kept)) = (cached, kept)
        && cached != kept
    {
        let name = fields.name(CACHED_REQUESTS);
        return Err(invalid(
            &name,
            format!(
                "`{name}` is {cached}, but this engine was loaded with {kept}: leave it out, or pass 0 for an answer \
                 that neither looks in earlier answers nor is kept for later ones"
            ),
        ));
    }
    Ok(SuffixOptions {
        max_tree_depth: depth.unwrap_or(default.max_tree_depth),
        max_cached_requests: cached.unwrap_or(default.max_cached_requests),
        max_spec_factor: factor.map_or(default.max_spec_factor, |factor| factor as f32),
        min_token_prob: probability.map_or(default.min_token_prob, |least| least as f32),
    })
}

const CACHED_REQUESTS: &str = "suffix_decoding_max_cached_requests";
