//! Opening a device and loading a model onto it.

use std::path::Path;

use foretoken_core::{Clock, Ops};
use foretoken_engine::{DeviceCounts, DraftSource, Engine, EngineOptions, Error, RowInvariance};
use foretoken_gpu::{Counters, GpuOps, GpuOptions, MatmulShape, Roofline};
use foretoken_reference::CpuOps;
use foretoken_weights::{FileSource, Gguf};
use serde_json::{Value, json};

use crate::args::ModelArgs;
use crate::draft_file::DraftFile;
use crate::failure::Status;
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
    let file = model_file::resolve(&args.model)?;
    // Opened before the device: a wrong path should not wait for a driver.
    let source = FileSource::open(&file).map_err(Error::from)?;
    let draft = args.draft().map(DraftFile::open).transpose()?;
    if args.device.as_deref() == Some(CPU) {
        let ops = CpuOps::new();
        let models = Models {
            file: &file,
            source: &source,
            draft: draft.as_ref().map(|draft| draft.source(None)),
            context_length: args.context_length,
        };
        let loaded = load(ops, Source::ClassDefault, args, models, clock);
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
        let beside = room::header(draft.as_ref()).await;
        let plan = room::plan(&mut ops, &gguf, beside.as_ref(), args).await?;
        let shape = if args.no_tune {
            Source::ClassDefault
        } else {
            tuning::tune(&mut ops, &gguf, args.quantize).await?
        };
        let models = Models {
            file: &file,
            source: &source,
            draft: draft.as_ref().map(|draft| draft.source(plan.draft_problem)),
            context_length: Some(plan.context_length),
        };
        let loaded = load(ops, shape, args, models, clock);
        task.run(loaded.await?).await
    }
}

/// What to load.
struct Models<'a> {
    /// The model's file, and it opened.
    file: &'a Path,
    source: &'a FileSource,
    draft: Option<DraftSource<'a, FileSource>>,
    context_length: Option<u32>,
}

async fn load<O: Device>(
    ops: O,
    shape: Source,
    args: &ModelArgs,
    models: Models<'_>,
    clock: Clock,
) -> Result<Loaded<O>, Error> {
    let Models {
        file,
        source,
        draft,
        context_length,
    } = models;
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
        speculative_config: args.speculative_config.as_ref().map(|given| given.config),
        per_request_spec_decode_metrics: args.per_request_spec_decode_metrics,
        enable_per_request_metrics: args.enable_per_request_metrics,
        enable_force_include_usage: args.enable_force_include_usage,
        prefix_reuse: args.prefix_reuse,
        steps_a_wait: None,
    };
    let engine = {
        let shown = match &draft {
            Some(draft) => format!("{name} and {}", draft.name),
            None => name,
        };
        let bar = LoadBar::new(&shown);
        let mut update = |progress| bar.update(progress);
        Engine::load_with_draft(ops, source, draft, options, &mut update).await?
    };
    if let RowInvariance::Broken { mismatch } = engine.row_invariance() {
        stderr::line(format_args!(
            "warning: on this device a row's bits depend on the rows around it ({mismatch})"
        ));
    }
    if let Some(reason) = engine.speculation().reason {
        stderr::line(format_args!("warning: speculation is off: {reason}"));
    } else if let Some(failure) = engine.draft_failure() {
        stderr::line(format_args!("warning: {failure}"));
    } else if let Some((name, share)) = engine
        .draft()
        .and_then(|draft| Some((draft.name, draft.mapped_share?)))
    {
        let percent = 100.0 * share;
        stderr::line(format_args!(
            "{name} has another vocabulary: both models write {percent:.0} % of a sample text in the same tokens, and only those are drafted"
        ));
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
