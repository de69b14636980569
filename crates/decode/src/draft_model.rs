//! `draft_model`: a second, smaller model drafts.
//!
//! A step is one submission and one wait. The draft model first reads the committed tokens that its KV cache lacks, one or two after a
//! step that drafted, and chooses the first draft; a pass of one row a draft follows for each further one, whose token the device puts
//! in; then the target verifies them all. The draft model chooses by the same noise at the same positions as the target does, so
//! where the two distributions agree they mostly choose the same token, at any temperature.
//!
//! What the cache of the draft model holds for rejected drafts is overwritten before anything attends to it, as the target's is.
//! Nothing of it can change an answer: it may hold anything, and the drafts would only be worse.

use foretoken_core::{
    Clock, DraftChoice, DraftStart, LanguageModel, MAX_VERIFY_ROWS, Ops, OpsError, Phase, Row,
    SequenceSlot, TokenId,
};

use crate::prefill::fill_cache;
use crate::sequence::position;
use crate::{AbortSignal, DecodeError, Sequence};

/// A draft model, for one step.
pub struct Draft<'a, O: Ops> {
    /// The model, on the ops that the target is on.
    pub model: &'a dyn LanguageModel<O>,
    /// What its KV cache holds. It may outlive answers: whoever comes next finds what both have in common.
    pub cache: &'a mut DraftCache,
    /// Where its vocabulary is not the target's: how one becomes the other.
    pub vocabulary: Option<DraftVocabulary<'a, O>>,
}

/// Another vocabulary than the target's.
pub struct DraftVocabulary<'a, O: Ops> {
    /// The target's token for each of the draft model's: only tokens that have one are proposed.
    pub to_target: &'a O::TokenMap,
    /// The draft model's tokens for the target's.
    pub translation: &'a mut dyn Translation,
}

/// Writes what a target committed in a draft model's tokens.
pub trait Translation {
    /// The draft model's tokens for all of `committed`; `None` where they end in the midst of something that it has no token for yet.
    fn translate(&mut self, committed: &[TokenId]) -> Option<&[TokenId]>;

    /// The draft model's token for one of the target's that it proposed.
    fn counterpart(&self, proposed: TokenId) -> Option<TokenId>;
}

/// What the next draft continues.
#[derive(Debug)]
pub(crate) struct Committed {
    /// The draft model's tokens.
    tokens: Vec<TokenId>,
    /// The target's last token, and where it stands.
    last: (TokenId, usize),
    slot: SequenceSlot,
}

/// Which tokens the KV cache of a draft model holds.
#[derive(Debug, Default)]
pub struct DraftCache {
    tokens: Vec<TokenId>,
    /// Positions that were written, or may have been: a cache that is a ring has lost what their places held before.
    written: usize,
}

impl DraftCache {
    /// How many of `tokens` it holds at its start, so that `rewind` allows to go on from there, and less than all: the last one has to
    /// be run. What it holds beyond is forgotten.
    fn resume(&mut self, tokens: &[TokenId], rewind: Option<u32>) -> usize {
        let both = self.tokens.iter().zip(tokens);
        let common = both.take_while(|(a, b)| a == b).count();
        let mut kept = common.min(tokens.len().saturating_sub(1));
        if rewind.is_some_and(|most| self.written - kept > most as usize) {
            kept = 0;
            self.written = 0;
        }
        self.tokens.truncate(kept);
        kept
    }
}

impl<O: Ops> Draft<'_, O> {
    /// What the committed tokens are to it, and how many tokens it can draft after them; `None` where it can draft none.
    pub(crate) fn read(&mut self, committed: &Sequence) -> Option<(Committed, usize)> {
        let target = committed.tokens();
        let tokens = match &mut self.vocabulary {
            Some(vocabulary) => vocabulary.translation.translate(target)?,
            None => target,
        };
        // The larger of two vocabularies that are the same otherwise may have tokens of its own.
        let vocab = self.model.config().vocab_size;
        if tokens.is_empty() || tokens.iter().any(|token| *token >= vocab) {
            return None;
        }
        let context = self.model.context_length() as usize;
        let room = context.checked_sub(tokens.len()).filter(|room| *room > 0)?;
        let read = Committed {
            tokens: tokens.to_vec(),
            last: (*target.last()?, target.len() - 1),
            slot: committed.slot(),
        };
        Some((read, room))
    }

    /// Brings its KV cache so far that one pass of the row family can read the rest of the tokens. Returns whether that took a wait.
    pub(crate) async fn catch_up(
        &mut self,
        ops: &mut O,
        committed: &Committed,
        abort: &AbortSignal,
    ) -> Result<bool, DecodeError> {
        let tokens = &committed.tokens;
        let kept = self.cache.resume(tokens, self.model.rewind());
        if tokens.len() - kept <= MAX_VERIFY_ROWS {
            return Ok(false);
        }
        let to = tokens.len() - 1;
        let mut sequence = Sequence::new(committed.slot);
        sequence.commit(tokens);
        sequence.set_kv_len(kept);
        // Before the wait: who gives it up does not come back to say so.
        self.cache.written = self.cache.written.max(to);
        let filled = fill_cache(ops, self.model, &mut sequence, to, abort).await;
        self.cache.tokens = tokens[..sequence.kv_len()].to_vec();
        filled.map(|()| true)
    }

    /// Records the passes that draft `k` tokens. The pass that verifies them comes next, over the rows that the device makes: the
    /// target's last token, and them. `vocab`: the target's.
    pub(crate) fn record(
        &mut self,
        ops: &mut O,
        committed: &Committed,
        k: usize,
        vocab: TokenId,
        log_confidence: Option<f32>,
    ) {
        let Committed { tokens, last, slot } = committed;
        let kept = self.cache.tokens.len();
        let rows: Vec<Row> = (kept..)
            .zip(&tokens[kept..])
            .map(|(at, &token)| Row {
                token,
                position: position(at),
                sequence: *slot,
            })
            .collect();
        let (token, at) = *last;
        ops.start_draft(&DraftStart {
            token,
            position: position(at),
            sequence: *slot,
            log_confidence: log_confidence.unwrap_or(f32::MIN),
        });
        let to_target = self
            .vocabulary
            .as_ref()
            .map(|vocabulary| vocabulary.to_target);
        for index in 0..k {
            if index == 0 {
                ops.begin(Phase::Rows, &rows, 1);
            } else {
                ops.begin_next(0, position(tokens.len() - 1 + index));
            }
            let logits = self.model.forward(ops);
            let choice = DraftChoice {
                index: index as u32,
                last: index + 1 == k,
                stops_early: log_confidence.is_some(),
                vocab,
            };
            ops.draft(logits, &choice, to_target);
        }
        self.cache.written = self.cache.written.max(tokens.len() - 1 + k);
    }

    /// Takes note of what [`Draft::record`] ran, which were `passes`: over the committed tokens, and over a draft each.
    pub(crate) fn ran(&mut self, committed: Committed, drafts: &[TokenId], passes: usize) {
        self.cache.tokens = committed.tokens;
        for &draft in &drafts[..drafts.len().min(passes - 1)] {
            let own = match &self.vocabulary {
                Some(vocabulary) => vocabulary.translation.counterpart(draft),
                None => Some(draft),
            };
            let Some(own) = own else { break };
            self.cache.tokens.push(own);
        }
    }
}

/// Records every kind of step that drafts up to `most` tokens for `target`, and drops it: what running one needs is then there.
pub fn prepare_drafts<O: Ops>(
    ops: &mut O,
    target: &dyn LanguageModel<O>,
    draft: &mut Draft<'_, O>,
    most: usize,
) {
    for k in 1..=most.min(crate::MAX_SPECULATIVE_TOKENS) {
        for log_confidence in [None, Some(0.0)] {
            record_step(ops, target, draft, k, 0, log_confidence);
            ops.discard();
        }
    }
}

/// Milliseconds of a step that drafts `k` tokens for `target` after `context` positions, from its recording to the reading of what it
/// chose. What those positions hold does not matter. `None` where the draft ended early, at a token that the target does not have.
///
/// # Errors
/// Whatever the device says.
pub async fn time_drafted_step<O: Ops>(
    ops: &mut O,
    target: &dyn LanguageModel<O>,
    draft: &mut Draft<'_, O>,
    k: usize,
    context: usize,
) -> Result<Option<f64>, OpsError> {
    let clock = Clock::start();
    // With all that a step has which may end its draft, and none does.
    record_step(ops, target, draft, k, context, Some(f32::MIN));
    ops.submit()?;
    let drafted = ops.read_drafted().await?;
    Ok((drafted.drafts.len() == k).then(|| clock.elapsed_ms()))
}

/// Records a step after `context` positions, of which it is pretended that both KV caches hold them.
fn record_step<O: Ops>(
    ops: &mut O,
    target: &dyn LanguageModel<O>,
    draft: &mut Draft<'_, O>,
    k: usize,
    context: usize,
    log_confidence: Option<f32>,
) {
    draft.cache.tokens = vec![0; context];
    let committed = Committed {
        tokens: vec![0; context + 1],
        last: (0, context),
        slot: 0,
    };
    let vocab = target.config().vocab_size;
    draft.record(ops, &committed, k, vocab, log_confidence);
    ops.begin_next(k, position(context + k));
    let logits = target.forward(ops);
    ops.choose(logits);
    *draft.cache = DraftCache::default();
}

impl<O: Ops> std::fmt::Debug for Draft<'_, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Draft")
            .field("model", self.model.config())
            .field("cache", &self.cache)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(tokens: &[TokenId]) -> DraftCache {
        DraftCache {
            tokens: tokens.to_vec(),
            written: tokens.len(),
        }
    }

    #[test]
    fn it_goes_on_from_what_both_have_and_runs_one_token_at_least() {
        let resume = |tokens: &[TokenId]| holding(&[1, 2, 3]).resume(tokens, None);
        assert_eq!(resume(&[1, 2, 3, 4]), 3);
        assert_eq!(resume(&[1, 2, 3]), 2);
        assert_eq!(resume(&[1, 9, 3, 4]), 1);
        assert_eq!(resume(&[9]), 0);
    }

    #[test]
    fn a_ring_that_was_overwritten_starts_again() {
        let mut cache = holding(&[1, 2, 3, 4, 5, 6]);
        assert_eq!(cache.resume(&[1, 2, 3, 9, 9], Some(3)), 3);
        // Cut back again: what was written stays written.
        assert_eq!(cache.resume(&[1, 2, 9], Some(3)), 0);
        assert_eq!(cache.resume(&[1, 2, 9], Some(3)), 0);
        assert_eq!(cache.written, 0);
    }
}
