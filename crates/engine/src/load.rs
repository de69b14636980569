//! From a file to an engine.

use foretoken_core::Ops;
use foretoken_decode::check_row_invariance;
use foretoken_models::{LoadOptions, load_model};
use foretoken_text::Tokenizer;
use foretoken_weights::{ByteSource, Gguf};

use crate::Error;
use crate::engine::{Engine, RowInvariance};
use crate::request_ids::RequestIds;
use crate::vocabulary::vocabulary_spec;

/// What a caller chooses when loading an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The name the model is served under.
    pub model_name: String,
    /// Positions of the context; the smaller of the model's and 4096 if absent.
    pub context_length: Option<u32>,
    /// Names what the bits of an answer depend on beside build, request and weights: adapter and tier.
    pub device: String,
    /// Whether to compare passes of 1 to 16 rows after loading ([`RowInvariance`]). Ops without
    /// compiled kernels have nothing to compare.
    pub check_row_invariance: bool,
}

/// What loading is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadPhase {
    /// Weights go to the device; counted in bytes.
    Upload,
    /// Pipelines are run and compared; not counted.
    Check,
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

impl<O: Ops + 'static> Engine<O> {
    /// Loads a GGUF file: header and tokenizer first, so that a file that cannot be used fails
    /// before its weights are read; then the weights; then the check of row invariance, after which
    /// the ops pad every pass if they must.
    ///
    /// # Errors
    /// What the file, the model or the device cannot do. See [`Error::code`].
    pub async fn load<S: ByteSource + ?Sized>(
        mut ops: O,
        source: &S,
        options: EngineOptions,
        progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Self, Error> {
        let gguf = Gguf::read(source).await?;
        let tokenizer = Tokenizer::new(vocabulary_spec(&gguf)?)?;

        let load = LoadOptions {
            context_length: options.context_length,
            ..LoadOptions::default()
        };
        let mut upload = |loaded, total| {
            progress(LoadProgress {
                phase: LoadPhase::Upload,
                loaded,
                total,
            })
        };
        let model = load_model(&mut ops, &gguf, source, load, &mut upload).await?;

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

        Ok(Self {
            ops,
            model,
            tokenizer,
            model_name: options.model_name,
            fingerprint: format!("foretoken-{} {}", env!("CARGO_PKG_VERSION"), options.device),
            row_invariance,
            ids: RequestIds::new(),
        })
    }
}
