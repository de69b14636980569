//! Steps in flight: the device makes the rows of its next pass itself, so the host records several passes ahead and reads
//! later what came of them.
//!
//! Nothing waits for the host between two passes. What it costs: a pass is recorded for as many drafts as might be found,
//! and a few passes run for nothing after the one that ended the answer. It changes no token: acceptance, the history
//! and the look-up are the same on the device ([`foretoken_core::HostSteps`] is the definition).

use std::collections::VecDeque;

use foretoken_core::{
    LanguageModel, NgramLookup, Ops, Phase, Row, StepLimits, StepOutcome, TokenId,
};

use crate::choices::choices_of;
use crate::decode_loop::{DecodeLoop, detailed, elapsed_ms};
use crate::sequence::position;
use crate::{Block, DecodeError};

/// Drafts that a pass may have.
#[derive(Debug, Clone, Copy, Default)]
struct Drafts {
    most: usize,
    /// Whether adaptive speculation tries whether drafting pays again.
    probe: bool,
}

/// What an answer has in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    lookup: Option<NgramLookup>,
    /// What each pass that was submitted and not read was recorded for: the oldest first.
    recorded: VecDeque<Drafts>,
    /// The same of the next pass; `None` before the first pass, whose rows the host makes.
    next: Option<Drafts>,
    /// Tokens there are at most when all that is in flight was read.
    most_tokens: usize,
    /// The device ended before the host did: it had no honest choice.
    ended: bool,
}

impl DecodeLoop {
    /// Whether further steps may be in flight. Log-probabilities are read pass by pass, and a drafter may be one that the
    /// device cannot follow.
    fn may_fly(&self) -> bool {
        let follows = match &self.options.drafter {
            Some(drafter) => drafter.lookup().is_some(),
            None => true,
        };
        let follows = follows && !self.options.draft_model && self.options.auto.is_none();
        self.options.steps_a_wait > 0 && self.options.logprobs.is_none() && follows
    }

    /// One block of an answer whose steps are in flight; `None` where the host has to take each step itself.
    pub(crate) async fn step_in_flight<O: Ops>(
        &mut self,
        ops: &mut O,
        model: &dyn LanguageModel<O>,
    ) -> Result<Option<Block>, DecodeError> {
        if !self.may_fly() || self.in_flight.as_ref().is_some_and(|f| f.ended) {
            return Ok(None);
        }
        let context = self
            .options
            .stop
            .context
            .min(model.context_length() as usize);
        let end = context.min(self.prompt_len.saturating_add(self.options.stop.max_tokens));
        if self.in_flight.is_none() {
            self.take_off(ops, end, context)?;
        }
        // Every step in flight commits a token at least: no more are needed than there are tokens to come.
        let most = 2 * self.options.steps_a_wait;
        while self.flying() < most && self.sequence.tokens().len() + self.flying() < end {
            self.submit_step(ops, model, context)?;
        }
        let clock = self.start_clock();
        let outcome = ops.read_step().await?;
        let waited_ms = elapsed_ms(clock);
        self.land(outcome, waited_ms, model.config().vocab_size)
    }

    fn flying(&self) -> usize {
        self.in_flight.as_ref().map_or(0, |f| f.recorded.len())
    }

    fn take_off<O: Ops>(
        &mut self,
        ops: &mut O,
        end: usize,
        context: usize,
    ) -> Result<(), DecodeError> {
        let limits = StepLimits {
            tokens: position(end),
            context: position(context),
            stop_ids: self.options.stop.token_ids.clone(),
        };
        let tokens = self.sequence.tokens();
        ops.start_steps(
            self.sequence.slot(),
            tokens,
            &limits,
            self.options.steps_a_wait,
        )?;
        let lookup = self.options.drafter.as_ref().and_then(|d| d.lookup());
        self.in_flight = Some(InFlight {
            lookup,
            recorded: VecDeque::new(),
            next: None,
            most_tokens: tokens.len(),
            ended: false,
        });
        Ok(())
    }

    /// Records the next pass and hands it over. The host makes the rows of the first, the device those of all others.
    fn submit_step<O: Ops>(
        &mut self,
        ops: &mut O,
        model: &dyn LanguageModel<O>,
        context: usize,
    ) -> Result<(), DecodeError> {
        let first = self.first_rows(context);
        let drafts_after = self.next_drafts();
        let Some(flight) = &mut self.in_flight else {
            unreachable!("submitted after take-off");
        };
        let by_device = flight.next.replace(drafts_after);
        let drafts = by_device.unwrap_or(Drafts {
            most: first.len().saturating_sub(1),
            probe: false,
        });
        // Rows stand from the last token on, so the last of them at one position less than the tokens it may add.
        let last_position = (flight.most_tokens - 1 + drafts.most).min(context - 1);
        flight.most_tokens += drafts.most + 1;
        flight.recorded.push_back(drafts);
        if by_device.is_some() {
            ops.begin_next(drafts.most, position(last_position));
        } else {
            ops.begin(Phase::Rows, &first, first.len());
        }
        let logits = model.forward(ops);
        ops.choose(logits);
        ops.next_step(drafts_after.most, flight.lookup.as_ref());
        ops.submit()?;
        Ok(())
    }

    /// The last token and what the drafter proposes after it; none after the first pass.
    fn first_rows(&mut self, context: usize) -> Vec<Row> {
        if self.in_flight.as_ref().is_none_or(|f| f.next.is_some()) {
            return Vec::new();
        }
        let to = self.sequence.tokens().len();
        let k = self.next_drafts().most.min(context.saturating_sub(to));
        let mut rows = self.sequence.rows(to - 1, to);
        if let Some(drafter) = self.options.drafter.as_mut().filter(|_| k > 0) {
            // What is looked up was committed: it is of the vocabulary.
            rows.extend(drafter.propose(k).iter().zip(to..).map(|(&token, at)| Row {
                token,
                position: position(at),
                sequence: self.sequence.slot(),
            }));
        }
        rows
    }

    /// Drafts that a pass is recorded for. The device cuts them at the context.
    fn next_drafts(&mut self) -> Drafts {
        let ceiling = self.options.num_speculative_tokens;
        let (most, probe) = match &mut self.options.adaptive {
            Some(adaptive) => adaptive.next_k_in_flight(ceiling),
            None => (ceiling, false),
        };
        Drafts { most, probe }
    }

    /// Commits what came of a step.
    fn land(
        &mut self,
        outcome: StepOutcome,
        waited_ms: f64,
        vocab: TokenId,
    ) -> Result<Option<Block>, DecodeError> {
        let Some(flight) = &mut self.in_flight else {
            unreachable!("landed without a flight");
        };
        let recorded = flight.recorded.pop_front().unwrap_or_default();
        if outcome.chosen.is_empty() {
            // The device ended and the host did not: it takes the step that says why.
            flight.ended = true;
            flight.recorded.clear();
            return Ok(None);
        }
        flight.most_tokens -= recorded.most - outcome.accepted.min(recorded.most);
        let StepOutcome {
            drafted, accepted, ..
        } = outcome;
        let to = self.sequence.tokens().len();
        let choices = choices_of(&outcome.chosen, to - 1, vocab)?;
        self.sequence.set_kv_len(to);
        if let Some(adaptive) = &mut self.options.adaptive {
            // The pass was recorded for so many, and cost as much, however many were found.
            adaptive.record_acceptance(recorded.most, accepted, recorded.probe);
        }
        if let Some(statistics) = &mut self.statistics {
            statistics.num_proposed_tokens += drafted as u64;
        }
        if let Some(statistics) = detailed(&mut self.statistics) {
            statistics.verify_time_ms += waited_ms;
            statistics.sync_time_ms += waited_ms;
        }
        Ok(Some(self.finish_step(choices, drafted, recorded.most + 1)))
    }
}
