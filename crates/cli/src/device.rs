//! Opening a device and loading a model onto it.

use std::path::Path;

use foretoken_core::{Clock, Ops};
use foretoken_engine::{DeviceCounts, Engine, EngineOptions, Error, RowInvariance};
use foretoken_gpu::{Counters, GpuOps, GpuOptions, MatmulShape, Roofline};
use foretoken_reference::CpuOps;
use foretoken_weights::{FileSource, Gguf};
use serde_json::{Value, json};

use crate::args::ModelArgs;
use crate::failure::{Status, invalid};
use crate::progress::LoadBar;
use crate::tuning::{self, Source};
use crate::{model_file, room, stderr};

/// `--device` for the reference.
pub const CPU: &str = "cpu";

/// Ops that the binary can open.
pub trait Device: Ops + 'static {
    /// The adapter, for `bench --json`.
    fn adapter(&self) -> Value;
    /// The tier's name.
    fn tier_name(&self) -> &'static str;
    /// The shape of its matmul kernels, where there is a choice.
    fn matmul_shape(&self) -> Option<MatmulShape>;
    /// Exact counts, where the ops keep any.
    fn counters(&self) -> Option<Counters>;
    /// Measures what the device could do at best, where there is one.
    fn roofline(&self) -> Result<Option<Roofline>, Error>;
    /// Whether kernels were compiled, whose rows have to be compared.
    const HAS_KERNELS: bool;
}

impl Device for CpuOps {
    fn adapter(&self) -> Value {
        json!({ "name": CPU, "backend": "reference" })
    }
    fn tier_name(&self) -> &'static str {
        "reference"
    }
    fn matmul_shape(&self) -> Option<MatmulShape> {
        None
    }
    fn counters(&self) -> Option<Counters> {
        None
    }
    fn roofline(&self) -> Result<Option<Roofline>, Error> {
        Ok(None)
    }
    const HAS_KERNELS: bool = false;
}

impl Device for GpuOps {
    fn adapter(&self) -> Value {
        let adapter = GpuOps::adapter(self);
        json!({
            "index": adapter.index,
            "name": adapter.name,
            "backend": adapter.backend,
            "device_type": adapter.device_type,
            "driver": adapter.driver,
            "software": adapter.software,
        })
    }
    fn tier_name(&self) -> &'static str {
        self.tier().name()
    }
    fn matmul_shape(&self) -> Option<MatmulShape> {
        Some(GpuOps::matmul_shape(self))
    }
    fn counters(&self) -> Option<Counters> {
        Some(GpuOps::counters(self))
    }
    fn roofline(&self) -> Result<Option<Roofline>, Error> {
        // Natively a probe waits for the device itself and never for anything else.
        Ok(Some(pollster::block_on(self.probe())?))
    }
    const HAS_KERNELS: bool = true;
}

/// A loaded model.
pub struct Loaded<O: Ops> {
    /// The engine.
    pub engine: Engine<O>,
    /// The shape of the matmul kernels and where it comes from, where there is a choice.
    pub tuning: Option<(MatmulShape, Source)>,
    /// Opening the device and loading, in milliseconds.
    pub load_ms: f64,
}

/// What to do with a loaded model, whatever runs it.
pub trait Task {
    /// Does it.
    async fn run<O: Device>(self, loaded: Loaded<O>) -> anyhow::Result<Status>;
}

/// Opens the device that `args` name, loads the model, runs the task.
pub async fn with_model(args: &ModelArgs, task: impl Task) -> anyhow::Result<Status> {
    let clock = Clock::start();
    if let Some(model) = &args.draft_model {
        return Err(invalid(format!(
            "--draft-model {model}: this build does not support draft models: leave it out, and draft with \
             --speculative-config '{{\"method\": \"ngram\", …}}'"
        )));
    }
    let file = model_file::resolve(&args.model)?;
    // Opened before the device: a wrong path should not wait for a driver.
    let source = FileSource::open(&file).map_err(Error::from)?;
    if args.device.as_deref() == Some(CPU) {
        let ops = CpuOps::new();
        let context = args.context_length;
        let loaded = load(
            ops,
            Source::ClassDefault,
            args,
            context,
            &file,
            &source,
            clock,
        );
        task.run(loaded.await?).await
    } else {
        let options = GpuOptions {
            device: args.device.clone(),
            tier: args.tier,
            ..GpuOptions::default()
        };
        let mut ops = GpuOps::new(options).await.map_err(Error::from)?;
        if GpuOps::adapter(&ops).software {
            stderr::line(format_args!(
                "warning: {} computes on the CPU: no GPU driver was found",
                GpuOps::adapter(&ops).name
            ));
        }
        let gguf = Gguf::read(&source).await.map_err(Error::from)?;
        let context = Some(room::context_length(&mut ops, &gguf, args).await?);
        let shape = if args.no_tune {
            Source::ClassDefault
        } else {
            tuning::tune(&mut ops, &gguf, args.quantize).await?
        };
        let loaded = load(ops, shape, args, context, &file, &source, clock);
        task.run(loaded.await?).await
    }
}

async fn load<O: Device>(
    ops: O,
    shape: Source,
    args: &ModelArgs,
    context_length: Option<u32>,
    file: &Path,
    source: &FileSource,
    clock: Clock,
) -> Result<Loaded<O>, Error> {
    let name = model_file::name(file);
    let adapter = ops.adapter();
    let tuning = ops.matmul_shape().map(|taken| (taken, shape));
    let mut device = format!(
        "{} {}",
        adapter["name"].as_str().unwrap_or_default(),
        ops.tier_name()
    );
    if let Some((shape, _)) = tuning {
        device += &format!(" {shape}");
    }
    let options = EngineOptions {
        model_name: name.clone(),
        context_length,
        quantize: args.quantize,
        device,
        check_row_invariance: O::HAS_KERNELS,
        speculative_config: args.speculative_config,
        per_request_spec_decode_metrics: args.per_request_spec_decode_metrics,
        enable_per_request_metrics: args.enable_per_request_metrics,
        enable_force_include_usage: args.enable_force_include_usage,
        prefix_reuse: args.prefix_reuse,
        steps_a_wait: None,
    };
    let engine = {
        let bar = LoadBar::new(&name);
        Engine::load(ops, source, options, &mut |progress| bar.update(progress)).await?
    };
    if let RowInvariance::Broken { mismatch } = engine.row_invariance() {
        stderr::line(format_args!(
            "warning: on this device a row's bits depend on the rows around it ({mismatch})"
        ));
    }
    if let Some(reason) = engine.speculation().reason {
        stderr::line(format_args!("warning: speculation is off: {reason}"));
    }
    if O::HAS_KERNELS {
        engine.count_with(device_counts::<O>);
    }
    Ok(Loaded {
        engine,
        tuning,
        load_ms: clock.elapsed_ms(),
    })
}

/// The counts that a response tells.
fn device_counts<O: Device>(ops: &O) -> DeviceCounts {
    let counters = ops.counters().unwrap_or_default();
    DeviceCounts {
        dispatches: counters.dispatches,
        submits: counters.submits,
        readbacks: counters.syncs,
    }
}
