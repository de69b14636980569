//! What loading would take, before a byte of the weights is there, and how long a context it leaves room for.

use foretoken_core::{Ops, OpsError};
use foretoken_models::{default_context_length, plan_model};
use foretoken_weights::{ByteSource, Gguf};

use crate::load::{EngineOptions, load_options};
use crate::tokenizer::read_tokenizer;
use crate::{Error, Quantization};

/// Where no length is asked for, contexts are halved down to this until one has room.
const LEAST_CONTEXT: u32 = 512;

/// Plans to load a model, a GGUF file or a folder: does what [`Engine::load`](crate::Engine::load) does up to the weights, from its
/// header alone, and allocates what it would on `ops`, which only plan. So what the file, the options or the limits of the device rule
/// out fails before the weights are there, by the same code and with the same errors. Returns the context that
/// [`fit_context`] finds.
///
/// # Errors
/// As [`Engine::load`](crate::Engine::load).
pub async fn plan<O: Ops + 'static, S: ByteSource>(
    ops: &mut O,
    source: &S,
    options: &EngineOptions,
) -> Result<u32, Error> {
    let gguf = Gguf::read(source).await?;
    read_tokenizer(source, &gguf).await?;
    fit_context::<O, S>(ops, &gguf, options, &mut |_| Ok(())).await
}

/// The context, in tokens, that `ops`, which only plan, have room for: the one that `options` name; or the smaller of the model's and
/// 4,096, halved until every allocation is within the device's limits and `fits` says that the sum of them is within what is free.
/// `fits` is called after each plan, and makes the ops forget it.
///
/// # Errors
/// As [`Engine::load`](crate::Engine::load), but for the tokenizer. Where no context fits, why the shortest does not.
pub async fn fit_context<O: Ops + 'static, S: ByteSource>(
    ops: &mut O,
    gguf: &Gguf,
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
        let planned = plan_model::<O, S>(ops, gguf, load).await;
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
