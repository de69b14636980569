//! Whether a model loads, and what it takes of the device's memory, by the length of its context: planned by the code that loads it.

use foretoken_engine::{ModelReport, Quantization, plan_context};
use foretoken_gpu::{GpuOps, GpuOptions};
use foretoken_reference::CpuOps;
use foretoken_weights::{FileSource, Gguf};
use serde::Serialize;

use crate::size::size;

/// Contexts that are shown, with the model's own at the end.
const CONTEXTS: [u32; 4] = [2048, 4096, 8192, 32768];

/// The plans for one device.
#[derive(Debug, Serialize)]
pub struct Memory {
    /// How keys and values are stored in the device's tier: `f32` or `f16`.
    kv_format: &'static str,
    /// In ascending order of their contexts.
    contexts: Vec<Plan>,
}

/// One context.
#[derive(Debug, Serialize)]
struct Plan {
    context_length: u32,
    /// Why it does not load so; the rest is then 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    weights_bytes: u64,
    kv_cache_f32_bytes: u64,
    kv_cache_f16_bytes: u64,
    /// Activations, RoPE's tables, attention's scratch …
    scratch_bytes: u64,
    /// With keys and values as the device's tier stores them.
    total_bytes: u64,
}

/// Why no device would load the model: a tensor that is missing, of another shape or of no use, a feature that is not supported.
/// What there is no memory for is another matter.
pub async fn problem(source: &FileSource, quantize: Option<Quantization>) -> Option<String> {
    let gguf = match Gguf::read(source).await {
        Ok(gguf) => gguf,
        Err(error) => return Some(error.to_string()),
    };
    let planned = plan_context::<_, FileSource>(&mut CpuOps::new(), &gguf, 1, quantize).await;
    let error = planned.err()?;
    (error.code() != "out_of_memory").then(|| error.to_string())
}

/// Plans on the device that would be taken; `None` where it does not open, or the file states no context.
pub async fn plan(
    source: &FileSource,
    report: &ModelReport,
    quantize: Option<Quantization>,
) -> Option<Memory> {
    let most = *report.dimensions.get("context_length")?;
    let mut ops = GpuOps::new(GpuOptions::default()).await.ok()?;
    let gguf = Gguf::read(source).await.ok()?;
    let mut contexts = Vec::new();
    for context_length in CONTEXTS
        .into_iter()
        .filter(|context| *context < most)
        .chain([most])
    {
        ops.set_planning(true);
        let planned =
            plan_context::<_, FileSource>(&mut ops, &gguf, context_length, quantize).await;
        let bytes = match planned {
            Ok(()) => ops.planned(),
            Err(_) => Default::default(),
        };
        contexts.push(Plan {
            context_length,
            problem: planned.err().map(|error| error.to_string()),
            weights_bytes: bytes.weights,
            kv_cache_f32_bytes: bytes.kv_numbers.saturating_mul(4),
            kv_cache_f16_bytes: bytes.kv_numbers.saturating_mul(2),
            scratch_bytes: bytes.scratch,
            total_bytes: bytes.total(),
        });
    }
    let kv_format = match ops.tier().f16 {
        true => "f16",
        false => "f32",
    };
    Some(Memory {
        kv_format,
        contexts,
    })
}

impl Memory {
    /// Bytes of the weights, where any context can be planned.
    pub fn weights(&self) -> Option<u64> {
        let mut planned = self.contexts.iter().filter(|plan| plan.problem.is_none());
        planned.next().map(|plan| plan.weights_bytes)
    }

    /// A table.
    pub fn describe(&self) -> String {
        let mut text = format!(
            "{:>9}  {:>11}{:>13}{:>13}{:>12}{:>12} (KV cache in {})\n",
            "context", "weights", "KV in f32", "KV in f16", "scratch", "total", self.kv_format
        );
        for plan in &self.contexts {
            text += &match &plan.problem {
                Some(problem) => format!("{:>9}  does not load: {problem}\n", plan.context_length),
                None => format!(
                    "{:>9}  {:>11}{:>13}{:>13}{:>12}{:>12}\n",
                    plan.context_length,
                    size(plan.weights_bytes),
                    size(plan.kv_cache_f32_bytes),
                    size(plan.kv_cache_f16_bytes),
                    size(plan.scratch_bytes),
                    size(plan.total_bytes)
                ),
            };
        }
        text
    }
}
