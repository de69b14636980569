//! Speculation: what a caller configures, what a request may change of it, and whether it runs.

use std::cell::RefCell;
use std::rc::Rc;

use foretoken_core::{MatchOrder, NgramLookup};
use foretoken_decode::{AcceptanceEstimate, AdaptiveSpeculation, StepCosts};
use serde::Serialize;
use serde_json::Value;

use crate::Error;
use crate::request::{Fields, invalid, kind, text};

/// The most tokens a step may draft: a verify pass has 16 rows.
pub const MAX_SPECULATIVE_TOKENS: u32 = 15;
/// The longest n-gram that is looked up.
pub const MAX_PROMPT_LOOKUP: u32 = 64;
/// vLLM's length of the n-grams where none is given.
const DEFAULT_PROMPT_LOOKUP: u32 = 5;

/// `speculative_config` of an engine, with vLLM's names; or a request's, which overrides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Whether a step drafts as many tokens as pay, up to `num_speculative_tokens`; otherwise it drafts that many always.
    pub adaptive: bool,
}

/// Who drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpeculativeMethod {
    /// What followed the last n-gram where it occurred before.
    Ngram,
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SpeculationStatus {
    /// Whether requests draft, unless they say otherwise.
    pub active: bool,
    /// Who drafts; null where no speculation was asked for.
    pub method: Option<SpeculativeMethod>,
    /// Why it does not run although it was asked for.
    pub reason: Option<String>,
}

impl SpeculativeConfig {
    /// Reads an engine's configuration.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] naming the key: an unknown one, an impossible value, or a method that this build lacks.
    pub fn parse(value: &Value) -> Result<Self, Error> {
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
        let (min, max) = lookup(&mut fields)?;
        let config = Self {
            method,
            num_speculative_tokens: count,
            prompt_lookup_min: min.or(max).unwrap_or(DEFAULT_PROMPT_LOOKUP),
            prompt_lookup_max: max.or(min).unwrap_or(DEFAULT_PROMPT_LOOKUP),
            prompt_lookup_match: match_order(&mut fields)?.unwrap_or(MatchOrder::Earliest),
            adaptive: fields.optional_flag("adaptive")?.unwrap_or(true),
        };
        fields.finish()?;
        config.check_lookup()
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
        let name = fields.name("method");
        let asked = fields.string("method")?;
        let method = asked.map_or(Ok(engine.method), |asked| method(asked, &name))?;
        let count = fields.integer("num_speculative_tokens", 1, engine.num_speculative_tokens)?;
        let (min, max) = lookup(&mut fields)?;
        let config = Self {
            method,
            num_speculative_tokens: count.unwrap_or(engine.num_speculative_tokens),
            prompt_lookup_min: min.unwrap_or(engine.prompt_lookup_min),
            prompt_lookup_max: max.unwrap_or(engine.prompt_lookup_max),
            prompt_lookup_match: match_order(&mut fields)?.unwrap_or(engine.prompt_lookup_match),
            adaptive: fields.optional_flag("adaptive")?.unwrap_or(engine.adaptive),
        };
        fields.finish()?;
        config.check_lookup().map(Some)
    }

    fn check_lookup(self) -> Result<Self, Error> {
        let (min, max) = (self.prompt_lookup_min, self.prompt_lookup_max);
        if min > max {
            let name = format!("{NAME}.prompt_lookup_min");
            return Err(invalid(
                &name,
                format!("`{name}` is {min}, above prompt_lookup_max, which is {max}"),
            ));
        }
        Ok(self)
    }
}

/// What an engine knows to choose how many tokens a step drafts.
#[derive(Debug)]
pub(crate) struct Adaptation {
    costs: Rc<RefCell<StepCosts>>,
    /// Acceptance over all answers: where a new answer starts.
    estimate: RefCell<AcceptanceEstimate>,
}

impl Adaptation {
    /// Knows nothing but what passes cost, as (rows, milliseconds); `None` if they say nothing.
    pub(crate) fn new(passes: &[(usize, f64)]) -> Option<Self> {
        let costs = StepCosts::from_measured(passes)?;
        Some(Self {
            costs: Rc::new(RefCell::new(costs)),
            estimate: RefCell::default(),
        })
    }

    /// For one answer.
    pub(crate) fn start(&self) -> AdaptiveSpeculation {
        let estimate = AcceptanceEstimate::seeded(&self.estimate.borrow());
        AdaptiveSpeculation::new(Rc::clone(&self.costs), estimate)
    }

    /// Takes in what an answer taught.
    pub(crate) fn absorb(&self, answer: &AcceptanceEstimate) {
        self.estimate.borrow_mut().absorb(answer);
    }
}

const NAME: &str = "speculative_config";

fn method(method: &str, name: &str) -> Result<SpeculativeMethod, Error> {
    match method {
        "ngram" => Ok(SpeculativeMethod::Ngram),
        "draft_model" | "suffix" | "auto" => Err(invalid(
            name,
            format!("`{name}` is {method:?}, which this build does not support: pass \"ngram\""),
        )),
        other => {
            let other: String = other.chars().take(64).collect();
            Err(invalid(
                name,
                format!("`{name}` is {other:?}, but only \"ngram\" is taken"),
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
