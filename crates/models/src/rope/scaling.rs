//! How a model stretches RoPE over a longer context than it was first trained for.
//!
//! Frequencies are `theta^(-2i/d)`. The kinds of scaling, with the paper or the model they come from: *linear* divides all of them
//! (Chen et al., 2023); *llama3* divides the slow ones and blends between (Llama 3.1's configuration); *yarn* does so by the turns a
//! frequency makes within the original context, and lets the rotation grow (Peng et al., 2023); *longrope* has a divisor a pair (Ding
//! et al., 2024).

use std::f64::consts::PI;

use foretoken_core::ModelConfig;
use foretoken_weights::Gguf;

use super::{LONG_FACTORS, ROPE_FREQS, SHORT_FACTORS};
use crate::{ModelsError, config::positive_f32};

/// Divisors of frequencies, `[pairs]` each, that a file has as tensors.
#[derive(Debug, Default)]
pub(super) struct Factors {
    pub(super) all: Option<Vec<f64>>,
    pub(super) long: Option<Vec<f64>>,
    pub(super) short: Option<Vec<f64>>,
}

/// What becomes of the frequencies.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scaling {
    /// Each is divided by its factor; all are where there are none.
    Divided { by: f64, factors: Option<Vec<f64>> },
    /// Those of long waves are divided.
    Llama3 {
        factor: f64,
        low: f64,
        high: f64,
        original: f64,
    },
    /// Those that turn seldom within the original context are divided.
    Yarn {
        factor: f64,
        beta_fast: f64,
        beta_slow: f64,
        original: f64,
        magnitude: f64,
    },
    /// A divisor a pair, one set within the original context and one beyond.
    Long {
        short: Vec<f64>,
        long: Vec<f64>,
        original: f64,
        magnitude: f64,
    },
}

/// `theta^(-2i/d)`.
pub(super) fn plain(theta: f64, pairs: u32) -> Vec<f64> {
    let exponent = |pair| -f64::from(pair) / f64::from(pairs);
    (0..pairs).map(|pair| theta.powf(exponent(pair))).collect()
}

impl Scaling {
    /// What the keys `<architecture>.rope.scaling.*` say, and the tensors.
    pub(super) fn read(
        config: &ModelConfig,
        gguf: &Gguf,
        mut factors: Factors,
    ) -> Result<Self, ModelsError> {
        let scaling = Self::of_kind(config, gguf, &mut factors)?;
        refuse_beside(&scaling, &config.model_type, gguf)?;
        // Taken by the kinds that have a use for them.
        let left = [
            (ROPE_FREQS, factors.all),
            (LONG_FACTORS, factors.long),
            (SHORT_FACTORS, factors.short),
        ];
        match left.into_iter().find(|(_, factors)| factors.is_some()) {
            None => Ok(scaling),
            Some((tensor, _)) => Err(ModelsError::UnsupportedFeature {
                key: format!("{}.rope.scaling.type", config.model_type),
                value: format!("{} beside a tensor `{tensor}`", scaling.name()),
                supported: "supported: rope_freqs without a type or with none or linear, both rope_factors without a type or with longrope"
                    .to_owned(),
            }),
        }
    }

    fn of_kind(
        config: &ModelConfig,
        gguf: &Gguf,
        factors: &mut Factors,
    ) -> Result<Self, ModelsError> {
        let architecture = &config.model_type;
        let name = |key: &str| format!("rope.scaling.{key}");
        let number = |key: &str| {
            let value = positive_f32(architecture, &name(key), gguf)?;
            Ok::<_, ModelsError>(value.map(f64::from))
        };
        let required = |key: &str| {
            let value = number(key)?;
            value.ok_or_else(|| missing(architecture, &name(key)))
        };
        let type_key = format!("{architecture}.rope.scaling.type");
        let kind = gguf.metadata.str(&type_key)?;
        let original = || {
            let key = format!("{architecture}.rope.scaling.original_context_length");
            let original = gguf.metadata.u32(&key)?;
            let original = original.unwrap_or(config.max_position_embeddings);
            Ok::<_, ModelsError>(f64::from(original.max(1)))
        };
        match kind {
            Some("none") => Ok(Self::Divided {
                by: 1.0,
                factors: factors.all.take(),
            }),
            // Files older than the type's key state the factor alone.
            None | Some("linear") if factors.long.is_none() => Ok(Self::Divided {
                by: match number("factor")? {
                    Some(factor) => factor,
                    // Its name in the first files.
                    None => positive_f32(architecture, "rope.scale_linear", gguf)?
                        .map_or(1.0, f64::from),
                },
                factors: factors.all.take(),
            }),
            Some("llama3") => {
                let (low, high) = (required("low_freq_factor")?, required("high_freq_factor")?);
                if low >= high {
                    return Err(ModelsError::InvalidDimension {
                        key: format!("{architecture}.rope.scaling.high_freq_factor"),
                        value: high.to_string(),
                        expected: format!("above the low one, {low}"),
                    });
                }
                Ok(Self::Llama3 {
                    factor: required("factor")?,
                    low,
                    high,
                    original: original()?,
                })
            }
            Some("yarn") => {
                let factor = required("factor")?;
                // Stated as a factor on what follows from the scaling.
                let stated = match number("attn_factor")? {
                    None => number("yarn_attn_factor")?,
                    stated => stated,
                };
                let magnitude = stated.unwrap_or(1.0) * growth(factor);
                Ok(Self::Yarn {
                    factor,
                    beta_fast: number("yarn_beta_fast")?.unwrap_or(32.0),
                    beta_slow: number("yarn_beta_slow")?.unwrap_or(1.0),
                    original: original()?,
                    magnitude,
                })
            }
            Some("longrope") | None | Some("linear") => {
                let (long, short) = match (factors.long.take(), factors.short.take()) {
                    (Some(long), Some(short)) => (long, short),
                    // One of two is left, and so refused.
                    (long, short) => {
                        (factors.long, factors.short) = (long, short);
                        let set = |key: &str| divisors(architecture, key, config, gguf);
                        (set("long_factor")?, set("short_factor")?)
                    }
                };
                let original = original()?;
                let factor = match number("factor")? {
                    Some(factor) => factor,
                    None => f64::from(config.max_position_embeddings) / original,
                };
                let follows = match factor > 1.0 && original > 1.0 {
                    true => (1.0 + factor.ln() / original.ln()).sqrt(),
                    false => 1.0,
                };
                Ok(Self::Long {
                    short,
                    long,
                    original,
                    magnitude: number("attn_factor")?.unwrap_or(follows),
                })
            }
            Some(other) => Err(ModelsError::UnsupportedFeature {
                key: type_key,
                value: format!(
                    "`{}`",
                    other
                        .chars()
                        .take(32)
                        .flat_map(char::escape_debug)
                        .collect::<String>()
                ),
                supported: "supported: none, linear, llama3, yarn, longrope".to_owned(),
            }),
        }
    }

    /// The kind's name.
    fn name(&self) -> &'static str {
        match self {
            Self::Divided { .. } => "linear or none",
            Self::Llama3 { .. } => "llama3",
            Self::Yarn { .. } => "yarn",
            Self::Long { .. } => "longrope",
        }
    }

    /// The frequencies, `[pairs]`, for a context of `positions`, and what cos and sin are multiplied by.
    pub(super) fn apply(&self, theta: f64, pairs: u32, positions: u32) -> (Vec<f64>, f64) {
        let frequencies = plain(theta, pairs);
        let divide = |factors: &[f64], by: f64| {
            let factors = factors.iter().copied().chain(std::iter::repeat(1.0));
            let pairs = frequencies.iter().zip(factors);
            pairs.map(|(f, factor)| f / (factor * by)).collect()
        };
        match self {
            Self::Divided { by, factors } => (divide(factors.as_deref().unwrap_or(&[]), *by), 1.0),
            Self::Llama3 {
                factor,
                low,
                high,
                original,
            } => {
                let scaled = |f: &f64| {
                    let turns = original * f / (2.0 * PI);
                    // 0 below `low` turns within the original context, 1 above `high`.
                    let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    f / factor * (1.0 - kept) + f * kept
                };
                (frequencies.iter().map(scaled).collect(), 1.0)
            }
            Self::Yarn {
                factor,
                beta_fast,
                beta_slow,
                original,
                magnitude,
            } => {
                // The pair that turns so often within the original context.
                let pair_of = |turns: f64| {
                    f64::from(pairs) * (original / (turns * 2.0 * PI)).ln() / theta.ln()
                };
                let last = f64::from(2 * pairs - 1);
                let from = pair_of(*beta_fast).floor().clamp(0.0, last);
                let to = pair_of(*beta_slow).ceil().clamp(0.0, last);
                let width = (to - from).max(0.001);
                let scaled = |(pair, f): (usize, &f64)| {
                    let kept = 1.0 - ((pair as f64 - from) / width).clamp(0.0, 1.0);
                    f / factor * (1.0 - kept) + f * kept
                };
                let scaled = frequencies.iter().enumerate().map(scaled);
                (scaled.collect(), *magnitude)
            }
            Self::Long {
                short,
                long,
                original,
                magnitude,
            } => {
                // Chosen once, by the room there is: keys in the cache cannot be turned again.
                let factors = match f64::from(positions) > *original {
                    true => long,
                    false => short,
                };
                (divide(factors, 1.0), *magnitude)
            }
        }
    }
}

/// Refuses numbers that a file states beside its kind of scaling and that are not computed with, unless they change nothing.
fn refuse_beside(scaling: &Scaling, architecture: &str, gguf: &Gguf) -> Result<(), ModelsError> {
    let is_yarn = matches!(scaling, Scaling::Yarn { .. });
    let is_long = matches!(scaling, Scaling::Long { .. });
    // Each with the value that changes nothing, and whether the kind computes with any.
    for (key, neutral, is_read) in [
        // How much of the ramp between the frequencies counts.
        ("yarn_ext_factor", f32::from(u8::from(is_yarn)), false),
        ("yarn_log_multiplier", 0.0, false),
        ("attn_factor", 1.0, is_yarn || is_long),
        ("yarn_attn_factor", 1.0, is_yarn),
    ] {
        let key = format!("{architecture}.rope.scaling.{key}");
        let found = gguf.metadata.f32(&key)?.unwrap_or(neutral);
        // Below 0 stands for the usual.
        let is_usual = found == neutral || (found < 0.0 && key.ends_with("ext_factor"));
        if !is_usual && !is_read {
            return Err(ModelsError::UnsupportedFeature {
                key,
                value: format!("{found} where the scaling is {}", scaling.name()),
                supported: format!("supported: {neutral}"),
            });
        }
    }
    Ok(())
}

/// What YaRN multiplies cos and sin by.
fn growth(factor: f64) -> f64 {
    match factor > 1.0 {
        true => 0.1 * factor.ln() + 1.0,
        false => 1.0,
    }
}

/// A divisor a pair, from an array of the metadata.
fn divisors(
    architecture: &str,
    key: &str,
    config: &ModelConfig,
    gguf: &Gguf,
) -> Result<Vec<f64>, ModelsError> {
    let key = format!("rope.scaling.{key}");
    let full = format!("{architecture}.{key}");
    let values = gguf.metadata.f32_array(&full)?;
    let values = values.ok_or_else(|| missing(architecture, &key))?;
    let pairs = config.head_dim as usize / 2;
    let wrong = match values.iter().find(|v| !(v.is_finite() && **v > 0.0)) {
        Some(value) => value.to_string(),
        None if values.len() != pairs => format!("{} numbers", values.len()),
        None => return Ok(values.into_iter().map(f64::from).collect()),
    };
    Err(ModelsError::InvalidDimension {
        key: full,
        value: wrong,
        expected: format!("{pairs} finite numbers above 0"),
    })
}

fn missing(architecture: &str, key: &str) -> ModelsError {
    ModelsError::InvalidDimension {
        key: format!("{architecture}.{key}"),
        value: "missing".to_owned(),
        expected: "there, as the kind of scaling needs it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference::{LLAMA3, YARN};
    use super::*;

    fn close(got: &[f64], expected: &[f64]) {
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(expected) {
            assert!((got / expected - 1.0).abs() < 2e-6, "{got} for {expected}");
        }
    }

    #[test]
    fn llama3_equals_the_reference() {
        let scaling = Scaling::Llama3 {
            factor: 8.0,
            low: 1.0,
            high: 4.0,
            original: 8192.0,
        };
        let (frequencies, magnitude) = scaling.apply(500_000.0, 32, 4096);
        close(&frequencies, &LLAMA3.0);
        assert_eq!(magnitude, LLAMA3.1);
    }

    #[test]
    fn yarn_equals_the_reference() {
        let scaling = Scaling::Yarn {
            factor: 4.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            original: 32_768.0,
            magnitude: 1.0,
        };
        let (frequencies, _) = scaling.apply(1_000_000.0, 64, 4096);
        close(&frequencies, &YARN.0);
        assert!((growth(4.0) - YARN.1).abs() < 1e-12);
    }

    #[test]
    fn longrope_takes_the_factors_of_its_context() {
        let scaling = Scaling::Long {
            short: vec![1.0, 1.0],
            long: vec![1.0, 4.0],
            original: 4096.0,
            magnitude: 1.25,
        };
        assert_eq!(scaling.apply(100.0, 2, 4096), (vec![1.0, 0.1], 1.25));
        assert_eq!(scaling.apply(100.0, 2, 4097), (vec![1.0, 0.025], 1.25));
    }
}
