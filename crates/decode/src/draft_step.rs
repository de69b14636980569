//! A step whose drafts a draft model makes: its passes, the pass that verifies and acceptance are one submission and one wait.

use foretoken_core::{Drafted, LanguageModel, Ops};

use crate::choices::choices_of_draft;
use crate::decode_loop::{DecodeLoop, detailed, elapsed_ms};
use crate::draft_model::Committed;
use crate::sequence::position;
use crate::{AdaptiveSpeculation, Auto, Block, DecodeError, Draft};

impl DecodeLoop {
    /// One step whose `k` drafts, or fewer, the draft model makes on the device.
    pub(crate) async fn step_by_model<O: Ops>(
        &mut self,
        ops: &mut O,
        model: &dyn LanguageModel<O>,
        mut draft: Draft<'_, O>,
        committed: Committed,
        k: usize,
    ) -> Result<Block, DecodeError> {
        let logprobs = self.options.logprobs;
        let to = self.sequence.tokens().len();
        let clock = self.start_clock();
        let waited = draft.catch_up(ops, &committed, &self.abort).await?;
        if let Some(statistics) = detailed(&mut self.statistics).filter(|_| waited) {
            statistics.draft_time_ms += elapsed_ms(clock);
        }
        let clock = self.start_clock();
        let vocab = model.config().vocab_size;
        let adaptive = self.adaptive_of_model();
        let log_confidence = adaptive.and_then(|adaptive| adaptive.least_log_confidence(k));
        draft.record(ops, &committed, k, vocab, log_confidence);
        ops.begin_next(k, position(to - 1 + k));
        let logits = model.forward(ops);
        ops.choose(logits);
        if let Some(top) = logprobs {
            ops.logprobs(logits, top);
        }
        ops.submit()?;
        let waiting = self.start_clock();
        let drafted = ops.read_drafted().await?;
        let choices = choices_of_draft(ops, &drafted, k, to - 1, vocab, logprobs.is_some()).await?;
        let step_ms = elapsed_ms(clock);
        let drafts = drafted.drafts.len();
        let proposed = proposed(&drafted, k, log_confidence);
        draft.ran(committed, &drafted.drafts, proposed);
        if let Some(statistics) = &mut self.statistics {
            statistics.num_proposed_tokens += proposed as u64;
            statistics.num_draft_passes += proposed as u64;
        }
        if let Some(statistics) = detailed(&mut self.statistics) {
            statistics.verify_time_ms += step_ms;
            statistics.sync_time_ms += elapsed_ms(waiting);
        }
        if let Some(adaptive) = self.adaptive_of_model() {
            let accepted = choices.accepted;
            adaptive.record_confidence(&drafted.log_confidences, accepted);
            let pass_ms = adaptive.record_whole_step(k, proposed, accepted, step_ms);
            if let Some(auto) = &self.options.auto {
                auto.record_pass_of_hosts(k + 1, pass_ms);
            }
        }
        self.sequence.set_kv_len(to);
        Ok(self.finish_step(choices, drafts, k + 1))
    }

    /// What chooses how far the draft model drafts.
    fn adaptive_of_model(&mut self) -> Option<&mut AdaptiveSpeculation> {
        let auto = self.options.auto.as_mut().and_then(Auto::model);
        self.options.adaptive.as_mut().or(auto)
    }
}

/// How many tokens the draft model chose, a pass each: those that were verified, and one that the target does not have where that ended
/// the draft.
fn proposed(drafted: &Drafted, k: usize, log_confidence: Option<f32>) -> usize {
    let drafts = drafted.drafts.len();
    let last = drafted.log_confidences.last();
    let went_on = log_confidence
        .zip(last)
        .is_none_or(|(least, last)| *last >= least);
    k.min(drafts + usize::from(went_on))
}
