//! What loading would take, before a byte of the weights is there, and how long a context it leaves room for.

use foretoken_core::{Ops, OpsError};
use foretoken_models::{default_context_length, plan_model};
use foretoken_weights::{ByteSource, Gguf};

use crate::draft::{DraftHeader, DraftSource, draft_options};
use crate::load::{EngineOptions, load_options};
use crate::tokenizer::read_tokenizer;
use crate::{Error, Quantization};

/// Where no length is asked for, contexts are halved down to this until one has room.
const LEAST_CONTEXT: u32 = 512;

/// What there is room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The context to load the model with, in tokens.
    pub context_length: u32,
    /// Why a draft model that was given is to be left out, in one line: for [`DraftSource::file`].
    pub draft_problem: Option<String>,
}

/// Plans to load a model and, where `draft` is given, a draft model beside it, each a GGUF file or a folder: does what
/// [`Engine::load_with_draft`](crate::Engine::load_with_draft) does up to the weights, from the headers alone, and allocates what it would on
/// `ops`, which only plan. So what a file, the options or the limits of the device rule out fails before the weights are there, by the same
/// code and with the same errors. Returns what [`fit_context`] finds.
///
/// # Errors
/// As [`Engine::load_with_draft`](crate::Engine::load_with_draft).
pub async fn plan<O: Ops + 'static, S: ByteSource>(
    ops: &mut O,
    source: &S,
    draft: Option<&DraftSource<'_, S>>,
    options: &EngineOptions,
) -> Result<Plan, Error> {
    options.check_draft(draft.is_some())?;
    let gguf = Gguf::read(source).await?;
    let tokenizer = read_tokenizer(source, &gguf).await?;
    let (mut header, mut problem) = (None, None);
    if let Some(draft) = draft {
        match DraftHeader::read(draft, &tokenizer).await {
            Ok(read) => header = Some(read),
            Err(failure) => problem = Some(failure.message),
        }
    }
    let draft = header.as_ref().map(|header| &header.gguf);
    let fitted = fit_context::<O, S>(ops, &gguf, draft, options, &mut |_| Ok(())).await?;
    Ok(Plan {
        draft_problem: problem.or(fitted.draft_problem),
        ..fitted
    })
}

/// The context, in tokens, that `ops`, which only plan, have room for: the one that `options` name; or the smaller of the model's and
/// 4,096, halved until every allocation is within the device's limits and `fits` says that the sum of them is within what is free.
/// `fits` is called after each plan, and makes the ops forget it. A plan is of the model and, where one is given, the draft model; where
/// no context has room for both, or nothing could load the draft, it is of the model alone.
///
/// # Errors
/// As [`Engine::load`](crate::Engine::load), but for the tokenizer. Where no context fits, why the shortest does not.
pub async fn fit_context<O: Ops + 'static, S: ByteSource>(
    ops: &mut O,
    gguf: &Gguf,
    draft: Option<&Gguf>,
    options: &EngineOptions,
    fits: &mut dyn FnMut(&mut O) -> Result<(), OpsError>,
) -> Result<Plan, Error> {
    let mut draft_problem = None;
    if draft.is_some() {
        match fit::<O, S>(ops, gguf, draft, options, fits).await {
            Ok(context_length) => {
                return Ok(Plan {
                    context_length,
                    draft_problem,
                });
            }
            // If the model is at fault, it is so alone too.
            Err(error) => draft_problem = Some(error.to_string()),
        }
    }
    Ok(Plan {
        context_length: fit::<O, S>(ops, gguf, None, options, fits).await?,
        draft_problem,
    })
}

/// [`fit_context`] of all that is given, or of nothing.
async fn fit<O: Ops + 'static, S: ByteSource>(
    ops: &mut O,
    gguf: &Gguf,
    draft: Option<&Gguf>,
    options: &EngineOptions,
    fits: &mut dyn FnMut(&mut O) -> Result<(), OpsError>,
) -> Result<u32, Error> {
    let stated = options.context_length.is_some();
    let mut load = load_options(options);
    let mut context = match options.context_length {
        Some(context) => context,
        None => default_context_length(gguf)?,
    };
    loop {
        load.context_length = Some(context);
        let mut planned = plan_model::<O, S>(ops, gguf, load).await;
        if let (Ok(()), Some(draft)) = (&planned, draft) {
            let load = draft_options(draft, context, options.quantize);
            planned = plan_model::<O, S>(ops, draft, load).await;
        }
        let fitted = fits(ops);
        // Who names a context is believed to have the room.
        let error = match (planned, fitted) {
            (Ok(()), Ok(())) => return Ok(context),
            (Ok(()), Err(_)) if stated => return Ok(context),
            (Ok(()), Err(error)) => Error::from(error),
            (Err(error), _) => Error::from(error),
        };
        if stated || error.code() != "out_of_memory" || context / 2 < LEAST_CONTEXT {
            return Err(error);
        }
        context /= 2;
    }
}

/// Allocates on `ops` what a load of the model at `context_length` does, by the same code; for ops that only plan.
///
/// # Errors
/// As [`Engine::load`](crate::Engine::load), but for the tokenizer.
pub async fn plan_context<O: Ops + 'static, S: ByteSource>(
    ops: &mut O,
    gguf: &Gguf,
    context_length: u32,
    quantize: Option<Quantization>,
) -> Result<(), Error> {
    let options = EngineOptions {
        context_length: Some(context_length),
        quantize,
        ..EngineOptions::new("", "")
    };
    Ok(plan_model::<O, S>(ops, gguf, load_options(&options)).await?)
}
