//! How long a context the device's memory leaves room for.

use foretoken_core::OpsError;
use foretoken_engine::{EngineOptions, Error, default_context_length, fit_context};
use foretoken_gpu::{AdapterReport, GpuOps, PlannedBytes};
use foretoken_weights::{FileSource, Gguf};

use crate::args::ModelArgs;
use crate::size::size;
use crate::stderr;

/// Kept free for the rest of the machine, of what it says is available: an eighth.
const KEPT: u64 = 8;

/// The context to load the model with, said on stderr with what it takes. Without `--context-length` the default is halved until
/// it fits into the device's limits and, where the device has the machine's own memory, into what is free of it.
pub async fn context_length(ops: &mut GpuOps, gguf: &Gguf, args: &ModelArgs) -> Result<u32, Error> {
    let free = shares_memory(ops.adapter()).then(free_bytes).flatten();
    let budget = free.map(|free| free - free / KEPT);
    let asked = EngineOptions {
        context_length: args.context_length,
        quantize: args.quantize,
        ..EngineOptions::new("", "")
    };
    let mut taken = PlannedBytes::default();
    ops.set_planning(true);
    let fitted = fit_context::<_, FileSource>(ops, gguf, &asked, &mut |ops: &mut GpuOps| {
        taken = ops.planned();
        ops.set_planning(true);
        match budget {
            Some(budget) if taken.total() > budget => Err(OpsError::OutOfMemory {
                what: "the model".to_owned(),
                needed: taken.total(),
                available: format!("{budget} of memory can be had"),
            }),
            _ => Ok(()),
        }
    })
    .await;
    ops.set_planning(false);
    let context = fitted?;
    let most = default_context_length(gguf)?;
    let cut = match args.context_length {
        None if context < most => {
            format!(" (there is no room for {most}; --context-length overrules)")
        }
        _ => String::new(),
    };
    stderr::line(format_args!(
        "context: {context} tokens{cut}; memory: weights {}, keys and values {}, scratch {}",
        size(taken.weights),
        size(taken.kv),
        size(taken.scratch)
    ));
    Ok(context)
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
