//! Making at load what requests will need: a recording that is dropped leaves its pipelines and bind groups behind.

use foretoken_core::{
    LanguageModel, MAX_PREFILL_ROWS, NgramLookup, Ops, OpsError, Phase, Position, Sampling,
    StepLimits,
};
use foretoken_decode::{Draft, prepare_drafts};

use crate::SpeculativeConfig;
use crate::measure::{ROW_COUNTS, rows_after};

/// Records passes of every size that `model` may run, prefill and rows, and drops them.
fn record_passes<O: Ops>(ops: &mut O, model: &dyn LanguageModel<O>) -> Result<(), OpsError> {
    let context = model.context_length() as usize;
    let vocab = model.config().vocab_size;
    let rows = |count| rows_after(0, count, vocab);
    for logit_rows in [0, 1] {
        let rows = rows(MAX_PREFILL_ROWS.min(context));
        ops.begin(Phase::Prefill, &rows, logit_rows);
        model.forward(ops);
        ops.discard();
    }
    for count in ROW_COUNTS.into_iter().filter(|count| *count <= context) {
        // Attention may be other kernels after a long context than after none.
        for before in [0, context - count] {
            let rows = rows_after(before as Position, count, vocab);
            ops.begin(Phase::Rows, &rows, count);
            model.forward(ops);
            ops.discard();
        }
    }
    Ok(())
}

/// One for every set of kernels that choose; the last is greedy.
fn samplings() -> [Sampling; 3] {
    let narrowed = Sampling {
        temperature: 1.0,
        top_p: 0.9,
        ..Sampling::greedy()
    };
    let sampled = Sampling {
        top_p: 1.0,
        ..narrowed.clone()
    };
    [narrowed, sampled, Sampling::greedy()]
}

/// The same for steps that `draft` drafts for `target`, up to `most` tokens each.
pub(crate) fn prepare_draft<O: Ops>(
    ops: &mut O,
    target: &dyn LanguageModel<O>,
    mut draft: Draft<'_, O>,
    most: usize,
) -> Result<(), OpsError> {
    record_passes(ops, draft.model)?;
    let shortest = target.context_length().min(draft.model.context_length());
    let most = most.min(shortest.saturating_sub(1) as usize);
    for sampling in samplings() {
        ops.set_sampling(0, &sampling, &[], target.config().vocab_size)?;
        let most = match sampling.is_greedy() {
            true => most,
            // Only what chooses differs.
            false => most.min(1),
        };
        prepare_drafts(ops, target, &mut draft, most);
    }
    Ok(())
}

/// Records a pass of every kind that a request may run, and drops it. Left to the first request that needs them: the
/// table of penalties and biases, and more than no alternatives of log-probabilities.
pub(crate) fn prepare<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
    speculation: Option<SpeculativeConfig>,
) -> Result<(), OpsError> {
    record_passes(ops, model)?;
    let vocab = model.config().vocab_size;
    let limits = StepLimits {
        tokens: 1,
        context: 1,
        stop_ids: Vec::new(),
    };
    ops.start_steps(0, &[0], &limits, 1)?;
    ops.begin(Phase::Rows, &rows_after(0, 1, vocab), 1);
    let logits = model.forward(ops);
    for sampling in samplings() {
        ops.set_sampling(0, &sampling, &[], vocab)?;
        ops.choose(logits);
    }
    ops.logprobs(logits, 0);
    ops.next_step(0, None);
    if let Some(config) = speculation {
        let lookup = NgramLookup::from(config);
        for drafts in 1..=config.num_speculative_tokens as usize {
            ops.next_step(drafts, Some(&lookup));
        }
    }
    ops.discard();
    Ok(())
}
