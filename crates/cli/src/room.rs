//! How long a context the device's memory leaves room for.

use foretoken_core::OpsError;
use foretoken_engine::{EngineOptions, Error, Plan, default_context_length, fit_context};
use foretoken_gpu::{AdapterReport, GpuOps, PlannedBytes};
use foretoken_weights::{FileSource, Gguf};

use crate::args::ModelArgs;
use crate::draft_file::DraftFile;
use crate::size::size;
use crate::stderr;

/// Kept free for the rest of the machine, of what it says is available: an eighth.
const KEPT: u64 = 8;

/// The header of a draft; `None` where there is none to plan with, which loading tells.
pub async fn header(draft: Option<&DraftFile>) -> Option<Gguf> {
    let file = draft?.file.as_ref().ok()?;
    Gguf::read(file).await.ok()
}

/// The context to load the model and its draft with, said on stderr with what they take. Without `--context-length` the default is halved
/// until they fit into the device's limits and, where the device has the machine's own memory, into what is free of it.
pub async fn plan(
    ops: &mut GpuOps,
    gguf: &Gguf,
    draft: Option<&Gguf>,
    args: &ModelArgs,
) -> Result<Plan, Error> {
    let free = shares_memory(ops.adapter()).then(free_bytes).flatten();
    let budget = free.map(|free| free - free / KEPT);
    let asked = EngineOptions {
        context_length: args.context_length,
        quantize: args.quantize,
        ..EngineOptions::new("", "")
    };
    // Named where it does not fit: with a draft it may be the draft that is too much.
    let what = match draft {
        Some(_) => "the model and its draft model",
        None => "the model",
    };
    let mut taken = PlannedBytes::default();
    ops.set_planning(true);
    let fitted = fit_context::<_, FileSource>(ops, gguf, draft, &asked, &mut |ops: &mut GpuOps| {
        taken = ops.planned();
        ops.set_planning(true);
        match budget {
            Some(budget) if taken.total() > budget => Err(OpsError::OutOfMemory {
                what: what.to_owned(),
                needed: taken.total(),
                available: format!("{budget} of memory can be had"),
            }),
            _ => Ok(()),
        }
    })
    .await;
    ops.set_planning(false);
    let plan = fitted?;
    let context = plan.context_length;
    let most = default_context_length(gguf)?;
    let cut = match args.context_length {
        None if context < most => {
            format!(" (there is no room for {most}; --context-length overrules)")
        }
        _ => String::new(),
    };
    let both = match (draft, &plan.draft_problem) {
        (Some(_), None) => " of both models",
        _ => "",
    };
    stderr::line(format_args!(
        "context: {context} tokens{cut}; memory{both}: weights {}, keys and values {}, scratch {}",
        size(taken.weights),
        size(taken.kv),
        size(taken.scratch)
    ));
    Ok(plan)
}

/// Whether what the device holds is taken from the machine's memory.
fn shares_memory(adapter: &AdapterReport) -> bool {
    adapter.software || adapter.device_type == "IntegratedGpu"
}

/// Bytes that the machine can give without swapping; `None` where it does not say.
fn free_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    available(&text)
}

/// The line `MemAvailable` of `/proc/meminfo`, in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::available;

    #[test]
    fn the_line_of_available_memory() {
        let text = "MemTotal:       24683196 kB\nMemFree:  1 kB\nMemAvailable:   20480 kB\n";
        assert_eq!(available(text), Some(20 << 20));
        for wrong in ["", "MemAvailable: many kB", "MemAvailable: 12"] {
            assert_eq!(available(wrong), None, "{wrong}");
        }
    }
}
