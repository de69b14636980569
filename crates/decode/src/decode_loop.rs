//! The loop that yields committed blocks of tokens.

use foretoken_core::{Clock, LanguageModel, MAX_STEPS_A_WAIT, Ops, Phase, Row, TokenId};

use crate::auto::Way;
use crate::choices::{Choices, read_choices};
use crate::in_flight::InFlight;
use crate::prefill::{check_prompt, run_prompt};
use crate::sequence::position;
use crate::{
    AbortSignal, AcceptanceEstimate, AcceptanceStatistics, AggregateCounters, Block, DecodeError,
    DecodeOptions, Draft, FinishReason, MAX_SPECULATIVE_TOKENS, Sequence, StatisticsLevel,
    TokenProvenance,
};

/// One answer in the making. The first step runs the prompt; every further one decodes: it drafts, verifies the
/// drafts in one pass behind the last committed token, and commits what the target chose.
///
/// The loop owns the state, not the device: ops and model come with each step, so that whoever holds
/// several loops can interleave them.
#[derive(Debug)]
pub struct DecodeLoop {
    pub(crate) sequence: Sequence,
    pub(crate) prompt_len: usize,
    pub(crate) options: DecodeOptions,
    pub(crate) in_flight: Option<InFlight>,
    pub(crate) abort: AbortSignal,
    finish: Option<FinishReason>,
    pub(crate) statistics: Option<Box<AcceptanceStatistics>>,
    counters: AggregateCounters,
    /// Where the latest block began, in tokens of the answer, and how many accepted drafts it began with.
    latest: (usize, usize),
}

impl DecodeLoop {
    /// Starts an answer after the committed tokens of `sequence`.
    pub fn new(sequence: Sequence, mut options: DecodeOptions, abort: AbortSignal) -> Self {
        let drafts = options.drafter.is_some() || options.draft_model || options.auto.is_some();
        options.num_speculative_tokens = match drafts {
            true => options.num_speculative_tokens.min(MAX_SPECULATIVE_TOKENS),
            false => 0,
        };
        options.steps_a_wait = options.steps_a_wait.min(MAX_STEPS_A_WAIT);
        Self {
            prompt_len: sequence.tokens().len(),
            sequence,
            statistics: AcceptanceStatistics::new(
                options.statistics,
                options.num_speculative_tokens,
            )
            .map(Box::new),
            options,
            in_flight: None,
            abort,
            finish: None,
            counters: AggregateCounters::default(),
            latest: (0, 0),
        }
    }

    /// The prompt and what was generated so far.
    pub fn sequence(&self) -> &Sequence {
        &self.sequence
    }

    /// What was generated so far, the token that ended it included.
    pub fn generated(&self) -> &[TokenId] {
        &self.sequence.tokens()[self.prompt_len..]
    }

    /// Why the answer ended, if it did.
    pub fn finish(&self) -> Option<FinishReason> {
        self.finish
    }

    /// What was counted so far; `None` at [`StatisticsLevel::None`].
    pub fn statistics(&self) -> Option<&AcceptanceStatistics> {
        self.statistics.as_deref()
    }

    /// What adaptive speculation learnt of acceptance so far, of each way to draft ([`crate::Auto::estimates`]); nothing where it is
    /// off.
    pub fn acceptance_estimates(&self) -> impl Iterator<Item = &AcceptanceEstimate> {
        let adaptive = self.options.adaptive.iter();
        let auto = self.options.auto.iter().flat_map(|auto| auto.estimates());
        adaptive.map(|adaptive| adaptive.estimate()).chain(auto)
    }

    /// Takes what was counted since the last call, at any level: to be added to the totals of all requests.
    pub fn take_counters(&mut self) -> AggregateCounters {
        std::mem::take(&mut self.counters)
    }

    /// Commits the next block, without a draft model. After the end of the answer: an empty block with the same reason.
    ///
    /// # Errors
    /// As [`DecodeLoop::step_with`].
    pub async fn step<O: Ops>(
        &mut self,
        ops: &mut O,
        model: &dyn LanguageModel<O>,
    ) -> Result<Block, DecodeError> {
        self.step_with(ops, model, None).await
    }

    /// Commits the next block. After the end of the answer: an empty block with the same reason. `draft` may differ from step to
    /// step, or be missing: that step decodes plainly.
    ///
    /// # Errors
    /// See [`DecodeError`]; the sequence keeps what was committed before. An answer whose step was dropped before it
    /// was ready cannot go on: the device may have counted tokens that were never read.
    pub async fn step_with<O: Ops>(
        &mut self,
        ops: &mut O,
        model: &dyn LanguageModel<O>,
        draft: Option<Draft<'_, O>>,
    ) -> Result<Block, DecodeError> {
        if self.finish.is_some() {
            return Ok(Block {
                finish: self.finish,
                ..Block::default()
            });
        }
        if self.abort.is_aborted() {
            return Err(DecodeError::Aborted);
        }
        if self.generated().is_empty() {
            let choices = self.prefill(ops, model).await?;
            let mut block = self.commit(choices);
            if self.options.provenance {
                block.provenance.push(TokenProvenance::Prefill);
            }
            return Ok(block);
        }
        if let Some(block) = self.step_in_flight(ops, model).await? {
            return Ok(block);
        }
        let mut draft = draft.filter(|_| self.may_draft_by_model());
        let read = draft.as_mut().and_then(|draft| draft.read(&self.sequence));
        let room = read.as_ref().map_or(0, |(_, room)| *room);
        let drafts = match (self.next_way(model, room), draft.zip(read)) {
            (Way::Model(k), Some((draft, (committed, _)))) => {
                return self.step_by_model(ops, model, draft, committed, k).await;
            }
            (Way::Tokens(drafts), _) => drafts,
            _ => Vec::new(),
        };
        let clock = self.start_clock();
        let choices = self.verify(ops, model, &drafts).await?;
        let accepted = choices.accepted;
        let pass_ms = elapsed_ms(clock);
        if let Some(statistics) = detailed(&mut self.statistics) {
            statistics.verify_time_ms += pass_ms;
        }
        if let Some(adaptive) = &mut self.options.adaptive {
            adaptive.record_step(drafts.len(), accepted, pass_ms);
        }
        if let Some(auto) = &self.options.auto {
            auto.record_pass(drafts.len() + 1, pass_ms);
        }
        Ok(self.finish_step(choices, drafts.len(), drafts.len() + 1))
    }

    /// Counts and commits what a pass over `drafted` drafts chose.
    pub(crate) fn finish_step(&mut self, choices: Choices, drafted: usize, rows: usize) -> Block {
        let accepted = choices.accepted;
        self.counters.record_step(drafted, accepted);
        if let Some(statistics) = &mut self.statistics {
            statistics.record_step(drafted, accepted);
            statistics.record_pass(rows);
        }
        let mut block = self.commit(choices);
        if self.options.provenance {
            block.provenance = (0..block.tokens.len())
                .map(|i| TokenProvenance::of(i, accepted, drafted))
                .collect();
        }
        block
    }

    /// Tells device and drafter what begins, and runs the prompt.
    async fn prefill<O: Ops>(
        &mut self,
        ops: &mut O,
        model: &dyn LanguageModel<O>,
    ) -> Result<Choices, DecodeError> {
        let prompt = self.sequence.tokens();
        check_prompt(model, prompt)?;
        let vocab = model.config().vocab_size;
        let sampling = &mut self.options.sampling;
        sampling.stop_ids.retain(|&token| token < vocab);
        sampling.logit_bias.retain(|&(token, _)| token < vocab);
        ops.set_sampling(self.sequence.slot(), sampling, prompt, vocab)?;
        if let Some(drafter) = &mut self.options.drafter {
            drafter.start(prompt);
        }
        if let Some(auto) = &mut self.options.auto {
            auto.start(prompt);
        }
        let logprobs = self.options.logprobs;
        run_prompt(ops, model, &mut self.sequence, &self.abort, logprobs).await
    }

    fn may_draft_by_model(&self) -> bool {
        self.options.draft_model || self.options.auto.is_some()
    }

    /// How the next step drafts, where the draft model has room for `model_room` tokens. Drafts end with the context, because each
    /// takes a position of the KV cache. `max_tokens` cuts those of the draft model alone, each of which costs a pass. All are of the
    /// vocabulary.
    fn next_way<O: Ops>(&mut self, model: &dyn LanguageModel<O>, model_room: usize) -> Way {
        let context = (model.context_length() as usize).min(self.options.stop.context);
        let room = context.saturating_sub(self.sequence.tokens().len());
        let ceiling = self.options.num_speculative_tokens.min(room);
        let vocab = model.config().vocab_size;
        // A step brings one token more than drafts.
        let wanted = self
            .options
            .stop
            .max_tokens
            .saturating_sub(self.generated().len() + 1);
        let model_room = model_room.min(wanted);
        let clock = self.start_clock();
        if let Some(auto) = &mut self.options.auto {
            let way = auto.next(ceiling, ceiling.min(model_room), vocab);
            if let Some(statistics) = detailed(&mut self.statistics) {
                statistics.draft_time_ms += elapsed_ms(clock);
            }
            if let (Some(statistics), Way::Tokens(drafts)) = (&mut self.statistics, &way) {
                statistics.num_proposed_tokens += drafts.len() as u64;
            }
            return way;
        }
        let ceiling = match self.options.draft_model {
            true => ceiling.min(model_room),
            false => ceiling,
        };
        let k = match &mut self.options.adaptive {
            Some(adaptive) => adaptive.next_k(ceiling),
            None => ceiling,
        };
        match (k, self.options.draft_model) {
            (0, _) => Way::Plain,
            (k, true) => Way::Model(k),
            (k, false) => Way::Tokens(self.propose(k, vocab)),
        }
    }

    /// Up to `k` tokens of the drafter.
    fn propose(&mut self, k: usize, vocab: TokenId) -> Vec<TokenId> {
        let clock = self.start_clock();
        let Some(drafter) = &mut self.options.drafter else {
            return Vec::new();
        };
        let mut drafts = drafter.propose(k);
        let draft_ms = elapsed_ms(clock);
        if let Some(statistics) = &mut self.statistics {
            statistics.num_proposed_tokens += drafts.len() as u64;
        }
        if let Some(statistics) = detailed(&mut self.statistics) {
            statistics.draft_time_ms += draft_ms;
        }
        if let Some(adaptive) = &self.options.adaptive {
            adaptive.record_draft(drafts.len(), draft_ms);
        }
        drafts.truncate(k);
        if let Some(bad) = drafts.iter().position(|&token| token >= vocab) {
            drafts.truncate(bad);
        }
        drafts
    }

    /// One pass of the row family over the token that the KV cache lacks, the last one, and the drafts after it.
    async fn verify<O: Ops>(
        &mut self,
        ops: &mut O,
        model: &dyn LanguageModel<O>,
        drafts: &[TokenId],
    ) -> Result<Choices, DecodeError> {
        let (from, to) = (self.sequence.kv_len(), self.sequence.tokens().len());
        debug_assert_eq!(
            from + 1,
            to,
            "between steps only the last token is missing in the KV cache"
        );
        let mut rows = self.sequence.rows(from, to);
        rows.extend(drafts.iter().enumerate().map(|(i, &token)| Row {
            token,
            position: position(to + i),
            sequence: self.sequence.slot(),
        }));
        ops.begin(Phase::Rows, &rows, rows.len());
        let logits = model.forward(ops);
        ops.choose(logits);
        if let Some(top) = self.options.logprobs {
            ops.logprobs(logits, top);
        }
        ops.submit()?;
        let waiting = self.start_clock();
        let choices =
            read_choices(ops, model, from, drafts, self.options.logprobs.is_some()).await?;
        if let Some(statistics) = detailed(&mut self.statistics) {
            statistics.sync_time_ms += elapsed_ms(waiting);
        }
        // What the cache holds for drafts that were not accepted needs no roll-back: the next pass overwrites it.
        self.sequence.set_kv_len(to);
        Ok(choices)
    }

    /// Commits the target's tokens up to the first that ends the answer.
    fn commit(&mut self, choices: Choices) -> Block {
        let Choices {
            mut tokens,
            mut logprobs,
            accepted,
        } = choices;
        let (generated, total) = (self.generated().len(), self.sequence.tokens().len());
        for (i, &token) in tokens.iter().enumerate() {
            self.finish = self
                .options
                .stop
                .finish(token, generated + i + 1, total + i + 1);
            if self.finish.is_some() {
                tokens.truncate(i + 1);
                logprobs.truncate(i + 1);
                break;
            }
        }
        self.sequence.commit(&tokens);
        // The last one's keys and values are written by the next pass; those of accepted drafts are there.
        self.sequence.set_kv_len(total + tokens.len() - 1);
        if let Some(drafter) = &mut self.options.drafter {
            drafter.committed(&tokens);
        }
        if let Some(auto) = &mut self.options.auto {
            auto.committed(&tokens);
        }
        self.latest = (generated, accepted);
        if let Some(statistics) = &mut self.statistics {
            statistics.emitted_from_drafts += accepted.min(tokens.len()) as u64;
        }
        Block {
            tokens,
            provenance: Vec::new(),
            logprobs,
            finish: self.finish,
        }
    }

    /// Ends the answer after its first `generated` tokens, because the text they make holds a stop
    /// string: later tokens of the block are taken back, and the reason becomes
    /// [`FinishReason::Stop`].
    pub fn stop_after(&mut self, generated: usize) {
        let (first, accepted) = self.latest;
        let before = self.generated().len();
        if let Some(statistics) = &mut self.statistics {
            let drafts_of = |len: usize| accepted.min(len.saturating_sub(first)) as u64;
            statistics.emitted_from_drafts -= drafts_of(before) - drafts_of(generated.min(before));
        }
        self.sequence.truncate(self.prompt_len + generated);
        // As plain decoding leaves it: it would have stopped before running this token.
        let len = self.sequence.tokens().len();
        self.sequence
            .set_kv_len(self.sequence.kv_len().min(len.saturating_sub(1)));
        self.finish = Some(FinishReason::Stop);
    }

    /// Time is measured only for the most detailed statistics, or to choose k by it.
    pub(crate) fn start_clock(&self) -> Option<Clock> {
        let statistics = self.statistics.as_ref();
        let detailed = statistics.is_some_and(|s| s.level() == StatisticsLevel::Detailed);
        let adapts = self.options.adaptive.is_some() || self.options.auto.is_some();
        (detailed || adapts).then(Clock::start)
    }
}

/// The statistics, where they have times.
pub(crate) fn detailed(
    statistics: &mut Option<Box<AcceptanceStatistics>>,
) -> Option<&mut AcceptanceStatistics> {
    statistics
        .as_deref_mut()
        .filter(|statistics| statistics.level() == StatisticsLevel::Detailed)
}

pub(crate) fn elapsed_ms(clock: Option<Clock>) -> f64 {
    clock.map_or(0.0, |clock| clock.elapsed_ms())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StopConditions;

    /// Commits one block of a verify pass after a prompt of four tokens.
    fn commit(chosen: &[TokenId], max_tokens: usize, context: usize) -> (DecodeLoop, Block) {
        let mut sequence = Sequence::new(0);
        sequence.commit(&[1, 2, 3, 4]);
        let stop = StopConditions {
            token_ids: vec![9],
            max_tokens,
            context,
        };
        let mut answer = DecodeLoop::new(sequence, DecodeOptions::plain(stop), AbortSignal::new());
        let block = answer.commit(Choices {
            tokens: chosen.to_vec(),
            logprobs: Vec::new(),
            accepted: chosen.len() - 1,
        });
        (answer, block)
    }

    #[test]
    fn a_block_ends_with_the_first_token_that_ends_the_answer() {
        for at in 0..4 {
            let mut chosen = [5, 6, 7, 8];
            chosen[at] = 9;
            let (answer, block) = commit(&chosen, 100, 64);
            assert_eq!(block.tokens, chosen[..=at]);
            assert_eq!(block.finish, Some(FinishReason::Stop));
            assert_eq!(answer.generated(), block.tokens);

            let (answer, block) = commit(&[5, 6, 7, 8], at + 1, 64);
            assert_eq!(
                (answer.generated().len(), block.finish),
                (at + 1, Some(FinishReason::Length))
            );
            let (answer, block) = commit(&[5, 6, 7, 8], 100, 5 + at);
            assert_eq!(
                (answer.generated().len(), block.finish),
                (at + 1, Some(FinishReason::Length))
            );
        }
        let (answer, block) = commit(&[5, 6, 7, 8], 5, 9);
        assert_eq!((answer.generated().len(), block.finish), (4, None));
    }

    #[test]
    fn a_stop_string_within_a_block_takes_the_rest_back() {
        let (mut answer, _) = commit(&[5, 6, 7, 8], 100, 64);
        answer.stop_after(2);
        assert_eq!(answer.generated(), [5, 6]);
        assert_eq!(answer.finish(), Some(FinishReason::Stop));
    }
}
