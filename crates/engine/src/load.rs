//! From a file to an engine.

use foretoken_core::Ops;
use foretoken_decode::{StatisticsLevel, StepCosts, check_row_invariance};
use foretoken_models::{LoadOptions, Quantization, load_model};
use foretoken_weights::{ByteSource, Gguf};

use crate::draft::{DraftHeader, DraftSource};
use crate::drafters::Costs;
use crate::engine::{Engine, Measured, RowInvariance};
use crate::measure::{time_passes, time_wait};
use crate::prepare::prepare;
use crate::tokenizer::read_tokenizer;
use crate::{Error, PrefixReuse, SpeculativeConfig};

/// What a caller chooses when loading an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The name the model is served under.
    pub model_name: String,
    /// Positions of the context; the smaller of the model's and 4096 if absent.
    pub context_length: Option<u32>,
    /// What matrices become that are not quantised yet; absent: they stay as the file has them.
    pub quantize: Option<Quantization>,
    /// Names what the bits of an answer depend on beside build, request and weights: adapter, tier, the shape of
    /// the kernels.
    pub device: String,
    /// Whether to compare passes of 1 to 16 rows after loading ([`RowInvariance`]). Ops without
    /// compiled kernels have nothing to compare.
    pub check_row_invariance: bool,
    /// Who drafts for requests that do not say; absent: nobody.
    pub speculative_config: Option<SpeculativeConfig>,
    /// What responses tell about acceptance. At `None` nothing is collected.
    pub per_request_spec_decode_metrics: StatisticsLevel,
    /// Whether responses have timing fields.
    pub enable_per_request_metrics: bool,
    /// Whether every stream ends with its usage, asked for or not.
    pub enable_force_include_usage: bool,
    /// What of the KV cache the next request may take over.
    pub prefix_reuse: PrefixReuse,
    /// Steps that one wait for the device reads, at most 8, where the device can lead
    /// ([`foretoken_decode::DecodeOptions::steps_a_wait`]); 0: every step waits for the one before it. Absent: as many as
    /// hide what a wait costs here, measured at load on ops with compiled kernels, else 0. It changes no answer.
    pub steps_a_wait: Option<usize>,
}

impl EngineOptions {
    /// No speculation, no metrics, the default context, rows not checked. `device` as in the field.
    pub fn new(model_name: impl Into<String>, device: impl Into<String>) -> Self {
        Self {
            model_name: model_name.into(),
            context_length: None,
            quantize: None,
            device: device.into(),
            check_row_invariance: false,
            speculative_config: None,
            per_request_spec_decode_metrics: StatisticsLevel::None,
            enable_per_request_metrics: false,
            enable_force_include_usage: false,
            prefix_reuse: PrefixReuse::default(),
            steps_a_wait: None,
        }
    }
}

/// `none`, `summary` or `detailed`.
pub fn parse_metrics_level(name: &str) -> Option<StatisticsLevel> {
    match name {
        "none" => Some(StatisticsLevel::None),
        "summary" => Some(StatisticsLevel::Summary),
        "detailed" => Some(StatisticsLevel::Detailed),
        _ => None,
    }
}

/// What loading is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadPhase {
    /// Weights go to the device; counted in bytes.
    Upload,
    /// Pipelines are run and compared; not counted.
    Check,
    /// Passes are timed, so that speculation drafts as much as pays; not counted.
    Tune,
}

/// How far loading has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadProgress {
    /// What is being done.
    pub phase: LoadPhase,
    /// How much of it is done.
    pub loaded: u64,
    /// How much there is; 0 where it is not counted.
    pub total: u64,
}

pub(crate) fn load_options(options: &EngineOptions) -> LoadOptions {
    LoadOptions {
        context_length: options.context_length,
        quantize: options.quantize,
        ..LoadOptions::default()
    }
}

impl<O: Ops + 'static> Engine<O> {
    /// Loads a model, a GGUF file or a folder: header and tokenizer first, so that a file that cannot be used fails
    /// before its weights are read; then the weights; then the check of row invariance, after which
    /// the ops pad every pass if they must.
    ///
    /// # Errors
    /// What the file, the model or the device cannot do. See [`Error::code`].
    pub async fn load<S: ByteSource + ?Sized>(
        ops: O,
        source: &S,
        options: EngineOptions,
        progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Self, Error> {
        Self::load_with_draft(ops, source, None, options, progress).await
    }

    /// Loads a model as [`Engine::load`] does, and a draft model onto the same ops, for the method `draft_model`: its header and
    /// tokenizer before any weights, its weights after the target's, one progress for both. Whatever is wrong with the draft
    /// alone is no error: the engine is loaded without it ([`Engine::draft_failure`], [`Engine::speculation`]).
    ///
    /// # Errors
    /// As [`Engine::load`]; [`Error::InvalidRequest`] where a draft is given without `speculative_config`, or the method is
    /// `draft_model` and there is none.
    pub async fn load_with_draft<S: ByteSource + ?Sized>(
        mut ops: O,
        source: &S,
        draft: Option<DraftSource<'_, S>>,
        options: EngineOptions,
        progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Self, Error> {
        options.check_draft(draft.is_some())?;
        let gguf = Gguf::read(source).await?;
        let tokenizer = read_tokenizer(source, &gguf).await?;
        let mut header = None;
        if let Some(draft) = &draft {
            header = Some(DraftHeader::read(draft, &tokenizer).await);
        }
        let load = load_options(&options);
        let draft_bytes = match &header {
            Some(Ok(header)) => header.bytes(),
            _ => 0,
        };
        let mut upload = |loaded, total| {
            progress(LoadProgress {
                phase: LoadPhase::Upload,
                loaded,
                total,
            })
        };
        let mut whole = 0;
        let mut of_target = |loaded, total| {
            whole = total + draft_bytes;
            upload(loaded, whole);
        };
        let model = load_model(&mut ops, &gguf, source, load, &mut of_target).await?;
        let mut draft = match header {
            None => None,
            Some(Err(failure)) => Some(Err(failure)),
            Some(Ok(header)) => {
                let before = whole - draft_bytes;
                let mut of_draft = |loaded, _| upload(before + loaded, whole);
                let target = model.as_ref();
                let loaded = header.load(&mut ops, target, options.quantize, &mut of_draft);
                let loaded = loaded.await?;
                if loaded.is_err() {
                    upload(whole, whole);
                }
                Some(loaded)
            }
        };

        let mut row_invariance = RowInvariance::NotChecked;
        if options.check_row_invariance {
            progress(LoadProgress {
                phase: LoadPhase::Check,
                loaded: 0,
                total: 0,
            });
            row_invariance = match check_row_invariance(&mut ops, model.as_ref()).await? {
                None => RowInvariance::Holds,
                Some(before) => {
                    ops.pad_rows(true);
                    match check_row_invariance(&mut ops, model.as_ref()).await? {
                        None => RowInvariance::HoldsPadded { before },
                        Some(mismatch) => RowInvariance::Broken { mismatch },
                    }
                }
            };
        }

        draft = match draft {
            Some(Ok(draft)) => {
                let most = options
                    .speculative_config
                    .map(|c| c.num_speculative_tokens as usize);
                let prepare = most.filter(|_| options.check_row_invariance);
                Some(draft.make_ready(&mut ops, model.as_ref(), prepare).await?)
            }
            other => other,
        };

        // After the draft: one that fails takes along whatever held its buffers.
        if options.check_row_invariance {
            prepare(&mut ops, model.as_ref(), options.speculative_config)?;
        }

        let speculates = options.speculative_config.is_some();
        let measures_wait = options.check_row_invariance && options.steps_a_wait.is_none();
        if speculates || measures_wait {
            progress(LoadProgress {
                phase: LoadPhase::Tune,
                loaded: 0,
                total: 0,
            });
        }
        let mut wait = None;
        if measures_wait {
            wait = Some(time_wait(&mut ops, model.as_ref()).await?);
        }
        let steps_a_wait = match (options.steps_a_wait, wait) {
            (Some(steps), _) => steps,
            (None, Some(wait)) => wait.steps_a_wait(),
            (None, None) => 0,
        };
        let mut costs = None;
        if speculates {
            let mut passes = time_passes(&mut ops, model.as_ref()).await?;
            let waiting = StepCosts::from_measured(&passes);
            if let Some(wait) = wait.filter(|_| steps_a_wait > 0) {
                wait.take_out(&mut passes);
            }
            let draft_ms = match &draft {
                Some(Ok(draft)) => Some(draft.token_ms),
                _ => None,
            };
            costs = StepCosts::from_measured(&passes)
                .zip(waiting)
                .map(|(in_flight, waiting)| Costs {
                    in_flight,
                    waiting,
                    draft_ms,
                });
        }

        let measured = Measured {
            row_invariance,
            costs,
            steps_a_wait,
        };
        Ok(Self::assemble(
            ops, model, draft, tokenizer, measured, options,
        ))
    }
}
