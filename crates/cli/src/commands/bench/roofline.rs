//! What the passes cost, held against what the device could do at best.

use foretoken_core::ModelConfig;
use foretoken_engine::{Engine, Error};
use foretoken_gpu::Roofline;
use serde_json::{Map, Value, json};

use super::super::speculative::{PassTimes, TIMED_ROWS};
use crate::device::Device;

/// Row counts whose weight reads are shown.
const FACTOR_ROWS: [usize; 4] = [1, 4, 8, 16];
/// Row counts that are held against the roofline.
const EXCESS_ROWS: [usize; 4] = [1, 2, 4, 8];

/// Exact counts of one verify pass.
struct PassCounts {
    rows: usize,
    dispatches: u64,
    weight_bytes_read: u64,
    weight_bytes: u64,
}

/// Counts of verify passes, by their rows.
pub struct PassCosts {
    counts: Vec<PassCounts>,
}

impl PassCosts {
    /// Runs a pass of each row count after `context` positions and counts what it did. `None` where the ops count
    /// nothing.
    pub async fn count<O: Device>(
        engine: &Engine<O>,
        context: u32,
    ) -> anyhow::Result<Option<Self>> {
        let room = engine.limits().context.saturating_sub(context) as usize;
        let mut counts = Vec::new();
        for rows in TIMED_ROWS.into_iter().filter(|rows| *rows <= room) {
            let Some(before) = engine.with_ops(Device::counters).flatten() else {
                return Ok(None);
            };
            engine.time_verify_pass(rows, context).await?;
            let after = engine.with_ops(Device::counters).flatten();
            let pass = after.unwrap_or(before).since(&before);
            counts.push(PassCounts {
                rows,
                dispatches: pass.dispatches,
                weight_bytes_read: pass.weight_bytes_read,
                weight_bytes: pass.weight_bytes,
            });
        }
        Ok(Some(Self { counts }))
    }

    /// Bytes of weights that a pass reads over bytes of weights there are.
    pub fn weight_read_factor(&self) -> Value {
        let shown = self
            .counts
            .iter()
            .filter(|pass| FACTOR_ROWS.contains(&pass.rows) && pass.weight_bytes > 0);
        shown
            .map(|pass| {
                let factor = pass.weight_bytes_read as f64 / pass.weight_bytes as f64;
                (pass.rows.to_string(), json!(factor))
            })
            .collect::<Map<_, _>>()
            .into()
    }

    /// The block `roofline` of the report.
    pub fn against(
        &self,
        roofline: &Roofline,
        config: &ModelConfig,
        times: &PassTimes,
        decode_tokens_per_second: f64,
    ) -> Value {
        let bytes = self
            .counts
            .first()
            .map_or(0.0, |pass| pass.weight_bytes_read as f64);
        let flops = 2.0 * weights_multiplied(config);
        let passes = self.counts.iter();
        let excess = passes
            .filter(|pass| EXCESS_ROWS.contains(&pass.rows))
            .map(|pass| {
                let flops = flops * pass.rows as f64;
                let least = roofline.least_ms(bytes, flops, pass.dispatches as f64);
                (pass.rows.to_string(), json!(times.time(pass.rows) / least))
            });
        let read = decode_tokens_per_second * bytes;
        json!({
            "read_gb_per_s": roofline.read_gb_per_s,
            "fma_gflop_per_s": roofline.fma_gflop_per_s,
            "dispatch_us": roofline.dispatch_us,
            "decode_fraction": read / (roofline.read_gb_per_s * 1e9),
            "excess": excess.collect::<Map<_, _>>(),
        })
    }
}

/// Weights that a row is multiplied with: those of all matrices but the embedding table, from which a row is only
/// taken. (Attention's own products, a few per cent at short contexts, are not in it.)
fn weights_multiplied(config: &ModelConfig) -> f64 {
    let hidden = f64::from(config.hidden_size);
    let head_dim = f64::from(config.head_dim);
    let queries = f64::from(config.num_attention_heads) * head_dim;
    let keys = f64::from(config.num_key_value_heads) * head_dim;
    let attention = hidden * (2.0 * queries + 2.0 * keys);
    let feed_forward = 3.0 * hidden * f64::from(config.intermediate_size);
    f64::from(config.num_hidden_layers) * (attention + feed_forward)
        + hidden * f64::from(config.vocab_size)
}

/// What the device could do at best, as far as two looks agree on it: other work on the machine only ever hides it.
pub fn best(one: Roofline, other: Roofline) -> Roofline {
    Roofline {
        read_gb_per_s: one.read_gb_per_s.max(other.read_gb_per_s),
        fma_gflop_per_s: one.fma_gflop_per_s.max(other.fma_gflop_per_s),
        dispatch_us: one.dispatch_us.min(other.dispatch_us),
    }
}

/// Probes the device of an idle engine; `None` where the ops have none.
pub fn probe<O: Device>(engine: &Engine<O>) -> Result<Option<Roofline>, Error> {
    engine.with_ops(Device::roofline).unwrap_or(Ok(None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_a_known_model() {
        // SmolLM2-135M: 134.5 million parameters, of which 61 norms of 576 are multiplied with nothing.
        let config = ModelConfig {
            model_type: "llama".to_owned(),
            vocab_size: 49_152,
            hidden_size: 576,
            intermediate_size: 1536,
            num_hidden_layers: 30,
            num_attention_heads: 9,
            num_key_value_heads: 3,
            head_dim: 64,
            max_position_embeddings: 8192,
            rms_norm_eps: 1e-5,
            rope_theta: 1e5,
            tie_word_embeddings: true,
        };
        assert_eq!(weights_multiplied(&config), 134_515_008.0 - 61.0 * 576.0);
    }
}
