//! RoPE's frequencies, with the scaling that metadata and tensors ask for.

use foretoken_core::{ModelConfig, RopeTableSpec};
use foretoken_weights::Metadata;

use crate::ModelsError;

/// Divisors of the frequencies, `[head_dim / 2]`: how converters write Llama 3's scaling.
pub(crate) const ROPE_FREQS: &str = "rope_freqs.weight";

/// The table for `positions` positions. `factors` are [`ROPE_FREQS`]' values, if the file has them.
pub(crate) fn rope_table_spec(
    config: &ModelConfig,
    metadata: &Metadata,
    factors: Option<&[f32]>,
    positions: u32,
) -> Result<RopeTableSpec, ModelsError> {
    let linear = linear_factor(&config.model_type, metadata)?;
    let factors = factors.unwrap_or_default();
    if let Some(value) = factors
        .iter()
        .find(|value| !(value.is_finite() && **value > 0.0))
    {
        return Err(ModelsError::InvalidValue {
            tensor: ROPE_FREQS.to_owned(),
            value: value.to_string(),
            expected: "its values are finite and above 0",
        });
    }
    let factors = factors
        .iter()
        .copied()
        .map(f64::from)
        .chain(std::iter::repeat(1.0));
    let inv_freq = (0..config.head_dim / 2)
        .zip(factors)
        .map(|(pair, factor)| {
            let exponent = -2.0 * f64::from(pair) / f64::from(config.head_dim);
            config.rope_theta.powf(exponent) / (factor * linear)
        })
        .collect();
    Ok(RopeTableSpec {
        inv_freq,
        magnitude: 1.0,
        positions,
    })
}

/// What positions are divided by.
fn linear_factor(architecture: &str, metadata: &Metadata) -> Result<f64, ModelsError> {
    let type_key = format!("{architecture}.rope.scaling.type");
    let factor_key = format!("{architecture}.rope.scaling.factor");
    let factor = metadata.f32(&factor_key)?;
    match metadata.str(&type_key)? {
        Some("none") => Ok(1.0),
        // Files older than the type's key state the factor alone.
        Some("linear") | None => match factor.unwrap_or(1.0) {
            factor if factor > 0.0 => Ok(f64::from(factor)),
            factor => Err(ModelsError::InvalidDimension {
                key: factor_key,
                value: factor.to_string(),
                expected: "above 0".to_owned(),
            }),
        },
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
            supported: "supported: none, linear".to_owned(),
        }),
    }
}
