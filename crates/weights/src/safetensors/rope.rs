//! RoPE's parameters, whichever of the ways to write them `config.json` takes, under GGUF's keys.

use super::config::Fields;
use crate::WeightsError;
use crate::gguf::NewValue;

type Entries = Vec<(&'static str, NewValue)>;

/// Keys below the architecture's name, and their values. `local`: layers with a window have a RoPE of their own.
/// `positions` is `max_position_embeddings`.
pub(super) fn entries(
    own: &mut Fields,
    local: bool,
    default_theta: u32,
    positions: u32,
) -> Result<Entries, WeightsError> {
    let mut entries = Entries::new();
    let mut theta = own.f64("rope_theta")?;
    let rotary = own.f64("partial_rotary_factor")?;
    let original = own.u32("original_max_position_embeddings")?;
    let mut local_theta = own.f64("rope_local_base_freq")?;
    // As transformers: the older key goes before the newer.
    let older = own.object("rope_scaling")?;
    let newer = own.object("rope_parameters")?;
    let mut parameters = match local {
        false => older.or(newer),
        true => {
            let mut nested = newer;
            if let Some(nested) = &mut nested
                && let Some(mut sliding) = nested.object("sliding_attention")?
            {
                local_theta = sliding.f64("rope_theta")?.or(local_theta);
                for key in ["rope_type", "type"] {
                    if let Some(kind) = sliding.text(key)?.filter(|kind| kind != "default") {
                        return Err(sliding.unsupported(key, &kind, "default"));
                    }
                }
                sliding.refuse_rest()?;
            }
            let full = match &mut nested {
                Some(nested) => nested.object("full_attention")?,
                None => None,
            };
            if let Some(nested) = &nested {
                nested.refuse_rest()?;
            }
            older.or(full)
        }
    };
    let scaling = match &mut parameters {
        None => None,
        Some(parameters) => {
            theta = parameters.f64("rope_theta")?.or(theta);
            let kind = parameters.text("rope_type")?;
            let older = parameters.text("type")?;
            kind.or(older).filter(|kind| kind != "default")
        }
    };
    let rotary = match &mut parameters {
        Some(parameters) => parameters.f64("partial_rotary_factor")?.or(rotary),
        None => rotary,
    };
    if let Some(rotary) = rotary.filter(|rotary| *rotary != 1.0) {
        return Err(own.unsupported(
            "partial_rotary_factor",
            &rotary.to_string(),
            "1, all of a head",
        ));
    }
    let theta = theta.unwrap_or_else(|| f64::from(default_theta));
    entries.push(("rope.freq_base", NewValue::F32(theta as f32)));
    if local {
        let theta = local_theta.unwrap_or(10_000.0);
        entries.push(("rope.freq_base_swa", NewValue::F32(theta as f32)));
    }
    if let Some(mut parameters) = parameters {
        let stated = parameters.u32("original_max_position_embeddings")?;
        let original = original.or(stated).unwrap_or(positions);
        if let Some(kind) = scaling {
            scale(&mut entries, &mut parameters, &kind, original, positions)?;
        }
        parameters.refuse_rest()?;
    }
    Ok(entries)
}

/// The keys of a scaling.
fn scale(
    entries: &mut Entries,
    parameters: &mut Fields,
    kind: &str,
    original: u32,
    positions: u32,
) -> Result<(), WeightsError> {
    const FACTOR: &str = "rope.scaling.factor";
    let kind = match kind {
        // What longrope was called first.
        "su" => "longrope",
        kind => kind,
    };
    entries.push(("rope.scaling.type", NewValue::Text(kind.to_owned())));
    let factor = parameters.f64("factor")?;
    let required = |parameters: &Fields| {
        let missing = || parameters.malformed("factor", "is missing");
        factor.ok_or_else(missing)
    };
    if kind != "linear" {
        let key = "rope.scaling.original_context_length";
        entries.push((key, NewValue::U32(original)));
    }
    match kind {
        "linear" => entries.push((FACTOR, NewValue::F32(required(parameters)? as f32))),
        "llama3" => {
            entries.push((FACTOR, NewValue::F32(required(parameters)? as f32)));
            for (from, to) in [
                ("low_freq_factor", "rope.scaling.low_freq_factor"),
                ("high_freq_factor", "rope.scaling.high_freq_factor"),
            ] {
                let value = parameters.f64(from)?;
                let value = value.ok_or_else(|| parameters.malformed(from, "is missing"))?;
                entries.push((to, NewValue::F32(value as f32)));
            }
        }
        "yarn" => {
            let factor = factor.unwrap_or(f64::from(positions) / f64::from(original.max(1)));
            entries.push((FACTOR, NewValue::F32(factor as f32)));
            for (from, to) in [
                ("beta_fast", "rope.scaling.yarn_beta_fast"),
                ("beta_slow", "rope.scaling.yarn_beta_slow"),
            ] {
                if let Some(value) = parameters.f64(from)?.filter(|value| *value != 0.0) {
                    entries.push((to, NewValue::F32(value as f32)));
                }
            }
            if parameters.bool("truncate")? == Some(false) {
                return Err(parameters.unsupported("truncate", "false", "true"));
            }
            // GGUF's factor comes on top of the usual one.
            let grown = |scale: f64| match factor > 1.0 {
                true => 0.1 * scale * factor.ln() + 1.0,
                false => 1.0,
            };
            let scales = [parameters.f64("mscale")?, parameters.f64("mscale_all_dim")?];
            let attention = match (parameters.f64("attention_factor")?, scales) {
                (Some(attention), _) => Some(attention),
                (None, [Some(scale), Some(all)]) if scale != 0.0 && all != 0.0 => {
                    Some(grown(scale) / grown(all))
                }
                _ => None,
            };
            if let Some(attention) = attention {
                let value = NewValue::F32((attention / grown(1.0)) as f32);
                entries.push(("rope.scaling.attn_factor", value));
            }
        }
        "longrope" => {
            let factor = factor.unwrap_or(f64::from(positions) / f64::from(original.max(1)));
            entries.push((FACTOR, NewValue::F32(factor as f32)));
            for (from, to) in [
                ("long_factor", "rope.scaling.long_factor"),
                ("short_factor", "rope.scaling.short_factor"),
            ] {
                let values = parameters.f32s(from)?;
                let values = values.ok_or_else(|| parameters.malformed(from, "is missing"))?;
                entries.push((to, NewValue::F32s(values)));
            }
            let stated = parameters.f64("attention_factor")?;
            let usual = match factor > 1.0 && original > 1 {
                true => (1.0 + factor.ln() / f64::from(original).ln()).sqrt(),
                false => 1.0,
            };
            let value = NewValue::F32(stated.unwrap_or(usual) as f32);
            entries.push(("rope.scaling.attn_factor", value));
        }
        other => {
            let known = "default, linear, llama3, yarn, longrope";
            return Err(parameters.unsupported(
                "rope_type",
                &crate::error::quoted(other, 32),
                known,
            ));
        }
    }
    Ok(())
}
