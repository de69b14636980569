//! Running a prompt through the model.

use foretoken_core::{Clock, LanguageModel, MAX_PREFILL_ROWS, Ops, Phase, TokenId};

use crate::choices::{Choices, read_choices};
use crate::{AbortSignal, DecodeError, Sequence};

/// A wait should come back about this often: long enough to hide its own cost, short enough that an
/// abort is heard and that no driver takes the queue for hung.
const WAIT_MS: f64 = 100.0;

/// The most passes handed to the device before waiting for it.
const MAX_PASSES_IN_FLIGHT: usize = 64;

/// Runs the committed tokens from `kv_len` on through the model and returns the target's choice for
/// the token after the last. The KV cache then holds every committed token.
///
/// Passes end at multiples of [`MAX_PREFILL_ROWS`] positions, so a token stands at the same place of a
/// pass however much of the prompt was in the cache before. How many passes are in flight between two
/// waits follows the measured time and changes no result.
///
/// # Errors
/// Before anything is recorded, if a token is outside the vocabulary or no position is left for the
/// answer; [`DecodeError::Aborted`] between passes; whatever the device says.
///
/// # Panics
/// If every committed token is in the cache already: at least one row must be run to have logits.
pub async fn prefill<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
    sequence: &mut Sequence,
    abort: &AbortSignal,
) -> Result<TokenId, DecodeError> {
    check_prompt(model, sequence.tokens())?;
    let choices = run_prompt(ops, model, sequence, abort, None).await?;
    Ok(choices.tokens[0])
}

/// [`prefill`] of a prompt that [`check_prompt`] has seen. `logprobs`: alternatives to report.
pub(crate) async fn run_prompt<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
    sequence: &mut Sequence,
    abort: &AbortSignal,
    logprobs: Option<u32>,
) -> Result<Choices, DecodeError> {
    let end = sequence.tokens().len();
    assert!(
        sequence.kv_len() < end,
        "nothing to prefill: all {end} tokens are in the KV cache"
    );
    let last = |ops: &mut O, logits: &O::Activation| {
        ops.choose(logits);
        if let Some(top) = logprobs {
            ops.logprobs(logits, top);
        }
    };
    run_passes(ops, model, sequence, end, abort, Some(&last)).await?;
    let choices = read_choices(ops, model, end - 1, &[], logprobs.is_some()).await?;
    // Only now is it known that the passes ran.
    sequence.set_kv_len(end);
    Ok(choices)
}

/// Runs committed tokens up to `to` so that the KV cache holds them; nothing is chosen.
pub(crate) async fn fill_cache<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
    sequence: &mut Sequence,
    to: usize,
    abort: &AbortSignal,
) -> Result<(), DecodeError> {
    run_passes(ops, model, sequence, to, abort, None).await?;
    ops.flush().await?;
    sequence.set_kv_len(to);
    Ok(())
}

/// What is recorded behind the logits of the last pass.
type Last<'a, O> = &'a dyn Fn(&mut O, &<O as Ops>::Activation);

/// Submits the passes over the tokens from `kv_len` to `end`, and waits for all but the latest of them. An inner part of a prompt
/// needs no logits, and nothing may be chosen there.
async fn run_passes<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
    sequence: &mut Sequence,
    end: usize,
    abort: &AbortSignal,
    last: Option<Last<'_, O>>,
) -> Result<(), DecodeError> {
    let mut from = sequence.kv_len();
    let mut in_flight = 1;
    while from < end {
        let clock = Clock::start();
        for _ in 0..in_flight {
            if abort.is_aborted() {
                return Err(DecodeError::Aborted);
            }
            let to = end.min((from / MAX_PREFILL_ROWS + 1) * MAX_PREFILL_ROWS);
            let last = last.filter(|_| to == end);
            let logit_rows = usize::from(last.is_some());
            ops.begin(Phase::Prefill, &sequence.rows(from, to), logit_rows);
            let logits = model.forward(ops);
            if let Some(record) = last {
                record(ops, logits);
            }
            sequence.submitted(to);
            ops.submit()?;
            from = to;
            if from == end {
                return Ok(());
            }
        }
        ops.flush().await?;
        sequence.set_kv_len(from);
        let elapsed = clock.elapsed_ms();
        if elapsed < WAIT_MS / 2.0 {
            in_flight = (in_flight * 2).min(MAX_PASSES_IN_FLIGHT);
        } else if elapsed > WAIT_MS * 2.0 {
            in_flight = (in_flight / 2).max(1);
        }
    }
    Ok(())
}

/// Refuses what cannot be run: no tokens, tokens the model lacks, or no room for an answer.
pub(crate) fn check_prompt<O: Ops>(
    model: &dyn LanguageModel<O>,
    tokens: &[TokenId],
) -> Result<(), DecodeError> {
    if tokens.is_empty() {
        return Err(DecodeError::EmptyPrompt);
    }
    let context = model.context_length();
    let prompt = tokens.len() as u64;
    if prompt >= u64::from(context) {
        return Err(DecodeError::ContextExceeded { prompt, context });
    }
    let vocab = model.config().vocab_size;
    match tokens.iter().position(|&token| token >= vocab) {
        Some(index) => Err(DecodeError::TokenOutOfVocabulary {
            token: tokens[index],
            position: index as u64,
            vocab,
        }),
        None => Ok(()),
    }
}
