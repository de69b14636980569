//! The fields that say how tokens are chosen.

use foretoken_core::{Sampling, TokenId};
use serde_json::Value;

use super::fields::{Fields, Range, invalid, kind, number};
use crate::Error;

/// The most entries of `logit_bias`.
const MAX_LOGIT_BIAS: usize = 1024;
/// Repetition penalties below this act like it: dividing a logit by less would overflow f32.
const LEAST_REPETITION_PENALTY: f64 = 1e-6;

/// Reads them. Absent, they are OpenAI's and vLLM's: temperature 1, everything else off.
pub(crate) fn sampling(fields: &mut Fields<'_>, vocab: u32) -> Result<Sampling, Error> {
    let mut value = |field, range, absent: f64| -> Result<f32, Error> {
        Ok(fields.number(field, range)?.unwrap_or(absent) as f32)
    };
    let temperature = value("temperature", Range::within(0.0, 2.0), 1.0)?;
    let top_p = value("top_p", Range::above(0.0, 1.0), 1.0)?;
    let min_p = value("min_p", Range::within(0.0, 1.0), 0.0)?;
    let presence_penalty = value("presence_penalty", Range::within(-2.0, 2.0), 0.0)?;
    let frequency_penalty = value("frequency_penalty", Range::within(-2.0, 2.0), 0.0)?;
    let repetition_penalty = fields
        .number("repetition_penalty", Range::above(0.0, 10.0))?
        .map_or(1.0, |value| value.max(LEAST_REPETITION_PENALTY) as f32);
    Ok(Sampling {
        temperature,
        top_p,
        min_p,
        presence_penalty,
        frequency_penalty,
        repetition_penalty,
        top_k: top_k(fields, vocab)?,
        logit_bias: logit_bias(fields, vocab)?,
        ..Sampling::greedy()
    })
}

/// `top_k`: -1 and 0 keep all.
fn top_k(fields: &mut Fields<'_>, vocab: u32) -> Result<u32, Error> {
    match fields.optional("top_k") {
        None => Ok(0),
        Some(value) if value.as_i64() == Some(-1) => Ok(0),
        Some(value) => super::fields::integer(value, "top_k", 0, vocab).map_err(|_| {
            let found = match value {
                Value::Number(number) => number.to_string(),
                other => kind(other).to_owned(),
            };
            invalid(
                "top_k",
                format!(
                    "`top_k` must be an integer, -1 or 0 (off) or within 1..={vocab}, not {found}"
                ),
            )
        }),
    }
}

/// `logit_bias`: a map from token ids, written as strings, to what is added to their logits.
fn logit_bias(fields: &mut Fields<'_>, vocab: u32) -> Result<Vec<(TokenId, f32)>, Error> {
    const NAME: &str = "logit_bias";
    let entries = match fields.optional(NAME) {
        None => return Ok(Vec::new()),
        Some(Value::Object(entries)) => entries,
        Some(other) => {
            return Err(invalid(
                NAME,
                format!(
                    "`{NAME}` must be an object from token ids to numbers, not {}",
                    kind(other)
                ),
            ));
        }
    };
    if entries.len() > MAX_LOGIT_BIAS {
        let found = entries.len();
        return Err(invalid(
            NAME,
            format!("`{NAME}` has {found} entries; at most {MAX_LOGIT_BIAS} are taken"),
        ));
    }
    entries
        .iter()
        .map(|(key, value)| {
            // Only the plain spelling: "7" and "07" must not be two entries for one token.
            let token = key
                .parse::<TokenId>()
                .ok()
                .filter(|token| *token < vocab && token.to_string() == *key);
            let Some(token) = token else {
                let key: String = key.chars().take(32).collect();
                return Err(invalid(
                    NAME,
                    format!(
                        "`{NAME}` has the key {key:?}; keys are token ids within 0..={}",
                        vocab - 1
                    ),
                ));
            };
            let name = format!("{NAME}.{token}");
            let bias = number(value, &name, Range::within(-100.0, 100.0));
            // The whole map is the parameter; the message names the entry.
            let bias = bias.map_err(|error| invalid(NAME, error.to_string()))?;
            Ok((token, bias as f32))
        })
        .collect()
}
