//! RoPE's frequencies, with the scaling that metadata and tensors ask for.

#[cfg(test)]
mod reference;
mod scaling;

use foretoken_core::{ModelConfig, Ops, RopeTableSpec};
use foretoken_weights::ByteSource;

use crate::{ModelsError, load_context::LoadContext};
use scaling::{Factors, Scaling};

/// Divisors of the frequencies, `[head_dim / 2]`: how converters write Llama 3's scaling.
const ROPE_FREQS: &str = "rope_freqs.weight";
/// The same of LongRoPE: for contexts beyond the original one, and within it.
const LONG_FACTORS: &str = "rope_factors_long.weight";
const SHORT_FACTORS: &str = "rope_factors_short.weight";

/// One rotary embedding of a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RopeSpec {
    /// With the scaling that the file asks for.
    Scaled {
        /// The base of the frequencies.
        theta: f64,
    },
    /// Whatever scaling the file asks for is not for this one.
    Plain {
        /// The base of the frequencies.
        theta: f64,
    },
    /// Nothing is turned.
    None,
}

/// The table of `rope` for `positions` positions.
pub(crate) async fn rope_table_spec<O: Ops, S: ByteSource + ?Sized>(
    context: &mut LoadContext<'_, O, S>,
    config: &ModelConfig,
    rope: &RopeSpec,
    positions: u32,
) -> Result<RopeTableSpec, ModelsError> {
    let pairs = config.head_dim / 2;
    let (inv_freq, magnitude) = match rope {
        RopeSpec::Scaled { theta } => {
            let factors = Factors {
                all: tensor_factors(context, ROPE_FREQS, pairs).await?,
                long: tensor_factors(context, LONG_FACTORS, pairs).await?,
                short: tensor_factors(context, SHORT_FACTORS, pairs).await?,
            };
            Scaling::read(config, context.gguf, factors)?.apply(*theta, pairs, positions)
        }
        RopeSpec::Plain { theta } => (scaling::plain(*theta, pairs), 1.0),
        // Turned by an angle of 0.
        RopeSpec::None => (vec![0.0; pairs as usize], 1.0),
    };
    Ok(RopeTableSpec {
        inv_freq,
        magnitude,
        positions,
    })
}

async fn tensor_factors<O: Ops, S: ByteSource + ?Sized>(
    context: &mut LoadContext<'_, O, S>,
    name: &str,
    pairs: u32,
) -> Result<Option<Vec<f64>>, ModelsError> {
    if !context.has(name) {
        return Ok(None);
    }
    let values = context.values(name, pairs).await?;
    if let Some(value) = values.iter().find(|v| !(v.is_finite() && **v > 0.0)) {
        return Err(ModelsError::InvalidValue {
            tensor: name.to_owned(),
            value: value.to_string(),
            expected: "its values are finite and above 0",
        });
    }
    Ok(Some(values.into_iter().map(f64::from).collect()))
}
