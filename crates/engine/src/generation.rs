//! A request in the making: blocks of tokens in, chunks of text out.

use std::marker::PhantomData;
use std::rc::Rc;

use foretoken_core::{Clock, Ops, Sampling, TokenId};
use foretoken_decode::{
    AbortSignal, AcceptanceStatistics, DecodeError, DecodeLoop, DecodeOptions, Sequence,
    StatisticsLevel, StopConditions,
};

use crate::answer_parts::{AnswerParts, Marks};
use crate::drafters::Drafting;
use crate::engine::{DeviceCounts, Shared, Work};
use crate::request::Params;
use crate::response::{
    Answer, CompletionTokensDetails, FinishReason, ForetokenMetrics, Header, Metrics, Piece,
    PromptTokensDetails, Shape, SpeculativeDecoding, TimingMetrics, TokenReport, Usage, Wants,
};
use crate::text_stream::TextStream;
use crate::turn::{Ticket, Turn};
use crate::{Error, PrefixReuse, SpeculationStatus, SpeculativeConfig};

/// When things happened, in milliseconds from the start of work on the request.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timing {
    /// Waiting before the start of work.
    pub queue_ms: f64,
    /// The first token was committed.
    pub first_token_ms: Option<f64>,
    /// The latest token was committed.
    pub last_token_ms: Option<f64>,
}

/// A request, ready to run.
pub(crate) struct Job {
    pub(crate) prompt: Vec<TokenId>,
    /// With the seed and the stop ids that count.
    pub(crate) params: Params,
    pub(crate) speculation: SpeculationStatus,
    pub(crate) header: Header,
    /// What to tell apart in the answers' text.
    pub(crate) marks: Marks,
}

/// How far a request has come.
enum Stage<O> {
    Waiting(Ticket<Work<O>>),
    Working(Turn<Work<O>>),
    Ended,
}

/// One choice in the making.
struct Choice {
    decode: DecodeLoop,
    text: TextStream,
    parts: AnswerParts,
    reasoning_tokens: usize,
    /// What it drafts with, until it has ended.
    drafting: Option<SpeculativeConfig>,
    /// Everything given out so far; at the end also what was held back.
    whole: Piece,
}

impl Choice {
    /// No token follows: what was held back, as it might have become a stop string or a mark, is what it looks like.
    fn release(&mut self) {
        let (mut piece, mut text) = (Piece::default(), String::new());
        self.text.finish(&mut text);
        self.parts.push(&text, &mut piece);
        self.parts.finish(&mut piece);
        self.whole.append(&piece);
    }
}

/// A request: it waits for its turn, works while it is polled, and gives its turn up when it ends. Dropping it at any
/// point leaves the engine as if it had not been.
///
/// Take either all of [`Generation::next_chunk`], or [`Generation::response`]. A future of either that is dropped before
/// it is done ends the generation as an abort does.
pub struct Generation<O: Ops, S: Shape> {
    shared: Rc<Shared<O>>,
    job: Job,
    abort: AbortSignal,
    stage: Stage<O>,
    /// A step is under way, or was given up in its midst.
    in_step: bool,
    /// The last one is at work.
    choices: Vec<Choice>,
    cached_tokens: usize,
    /// What the KV cache holds of the prompt was all made by prefill.
    by_prefill: bool,
    prompt_ids_sent: bool,
    /// Choices of the stream that have had their opening chunk.
    opened: u32,
    usage_sent: bool,
    /// Since joining the queue; then since the start of work.
    clock: Clock,
    timing: Timing,
    counts: Option<(DeviceCounts, DeviceCounts)>,
    shape: PhantomData<S>,
}

impl<O: Ops, S: Shape> std::fmt::Debug for Generation<O, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generation")
            .field("id", &self.job.header.id)
            .finish_non_exhaustive()
    }
}

impl<O: Ops, S: Shape> Generation<O, S> {
    pub(crate) fn new(
        shared: Rc<Shared<O>>,
        ticket: Ticket<Work<O>>,
        job: Job,
        abort: AbortSignal,
    ) -> Self {
        Self {
            shared,
            job,
            abort,
            stage: Stage::Waiting(ticket),
            in_step: false,
            choices: Vec::new(),
            cached_tokens: 0,
            by_prefill: true,
            prompt_ids_sent: false,
            opened: 0,
            usage_sent: false,
            clock: Clock::start(),
            timing: Timing::default(),
            counts: None,
            shape: PhantomData,
        }
    }

    /// The next chunk of the stream; `None` after the last. A chunk without text comes only where it
    /// says something else: the role, token ids, the end, the usage.
    ///
    /// # Errors
    /// What ended the generation; what was given out before stays true.
    pub async fn next_chunk(&mut self) -> Result<Option<S::Chunk>, Error> {
        let index = self.next_index();
        if S::HAS_OPENING && self.opened <= index && index < self.job.params.n {
            self.opened = index + 1;
            let prompt = self.take_prompt_ids();
            return Ok(Some(S::opening(self.header(1), index, prompt)));
        }
        let wants = self.wants();
        while let Some(piece) = self.next_piece().await? {
            if piece.finish.is_some() || wants.every_token() || piece.says_something() {
                let prompt = self.take_prompt_ids();
                return Ok(Some(S::chunk(self.header(1), piece, wants, prompt)));
            }
        }
        if self.job.params.include_usage && !std::mem::replace(&mut self.usage_sent, true) {
            let metrics = self.metrics();
            return Ok(Some(S::usage(self.header(1), self.usage(), metrics)));
        }
        Ok(None)
    }

    /// Runs to the end and returns the whole answer.
    ///
    /// # Errors
    /// What ended the generation. After an abort, [`Generation::so_far`] has what there was.
    pub async fn response(&mut self) -> Result<S::Response, Error> {
        while self.next_piece().await?.is_some() {}
        Ok(self.so_far())
    }

    /// The answer as far as it has come, after an abort with what was held back of its text; the finish reason of what has not ended is
    /// `abort`.
    pub fn so_far(&self) -> S::Response {
        let mut choices: Vec<Piece> = self.choices.iter().map(|c| c.whole.clone()).collect();
        if choices.is_empty() {
            choices.push(Piece::default());
        }
        let answer = Answer {
            choices,
            wants: self.wants(),
            usage: self.usage(),
            metrics: self.metrics(),
            prompt_token_ids: self.prompt_ids(),
        };
        S::response(self.header(0), answer)
    }

    /// All text of the choice that is at work, or was last; after an abort with what was held back.
    pub fn text(&self) -> &str {
        self.choices.last().map_or("", |choice| &choice.whole.text)
    }

    /// Tokens read and written so far.
    pub fn usage(&self) -> Usage {
        let prompt_tokens = self.job.prompt.len();
        let completion_tokens = self
            .choices
            .iter()
            .map(|choice| choice.decode.generated().len())
            .sum();
        Usage {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            prompt_tokens_details: PromptTokensDetails {
                cached_tokens: self.cached_tokens,
            },
            completion_tokens_details: self.job.marks.reasoning.then(|| CompletionTokensDetails {
                reasoning_tokens: self.choices.iter().map(|c| c.reasoning_tokens).sum(),
            }),
        }
    }

    /// When the first and the latest token came.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// The seed, passed or drawn.
    pub fn seed(&self) -> u64 {
        self.job.params.sampling.seed
    }

    /// The ops underneath, for their counters; `None` unless it is at work.
    pub fn ops(&self) -> Option<&O> {
        match &self.stage {
            Stage::Working(turn) => Some(&turn.ops),
            _ => None,
        }
    }

    /// What was counted of the choice that is at work, or was last; `None` where nothing is collected.
    pub fn statistics(&self) -> Option<&AcceptanceStatistics> {
        self.choices.last()?.decode.statistics()
    }

    /// Waits for the turn if need be, runs one step and turns its block into text; `None` after the end of the last
    /// choice. A piece whose `finish` is set is the last of its choice.
    ///
    /// # Errors
    /// What ended the generation.
    pub async fn next_piece(&mut self) -> Result<Option<Piece>, Error> {
        if matches!(self.stage, Stage::Ended) {
            return Ok(None);
        }
        if std::mem::replace(&mut self.in_step, true) {
            self.end(Some(FinishReason::Abort));
            return Err(DecodeError::Aborted.into());
        }
        let result = self.step().await;
        self.in_step = false;
        match &result {
            Ok(piece) if piece.finish.is_some() => {
                self.settle();
                if piece.index + 1 == self.job.params.n {
                    self.end(piece.finish);
                }
            }
            Ok(_) => {}
            Err(error) if error.is_abort() => self.end(Some(FinishReason::Abort)),
            Err(_) => self.end(None),
        }
        result.map(Some)
    }

    async fn step(&mut self) -> Result<Piece, Error> {
        self.begin().await?;
        if self.choices.last().is_none_or(|c| c.whole.finish.is_some()) {
            let choice = self.next_choice()?;
            self.choices.push(choice);
        }
        let (Stage::Working(turn), Some(choice)) = (&mut self.stage, self.choices.last_mut())
        else {
            unreachable!("a generation that has begun has its turn and a choice");
        };
        let before = choice.decode.generated().len();
        let Work { ops, draft, .. } = &mut **turn;
        let draft_model = self.shared.draft_model();
        let draft = draft_model.map(|model| model.draft(draft));
        let block = choice
            .decode
            .step_with(ops, self.shared.model.as_ref(), draft)
            .await?;
        if !block.tokens.is_empty() {
            let now = self.clock.elapsed_ms();
            self.timing.first_token_ms.get_or_insert(now);
            self.timing.last_token_ms = Some(now);
        }

        let mut piece = Piece {
            index: choice.whole.index,
            provenance: block.provenance,
            ..Piece::default()
        };
        // The token the model ended with, or was to be stopped at, is no text.
        let ended_by_token = block.finish == Some(foretoken_decode::FinishReason::Stop);
        let with_text =
            block.tokens.len() - usize::from(ended_by_token && !block.tokens.is_empty());
        let mut matched = None;
        let mut text = String::new();
        for (i, &token) in block.tokens.iter().enumerate() {
            if let Some(logprobs) = block.logprobs.get(i) {
                let offset = choice.text.characters();
                let tokenizer = &self.shared.tokenizer;
                let report = TokenReport::new(tokenizer, token, logprobs, offset);
                piece.logprobs.push(report);
            }
            choice.reasoning_tokens += usize::from(choice.parts.in_reasoning());
            let stopped = i < with_text && choice.text.push(token, &mut text);
            choice.parts.push(&text, &mut piece);
            text.clear();
            piece.text_ends.push(piece.text.len());
            if stopped {
                matched = Some(i + 1);
                break;
            }
        }
        piece.token_ids = block.tokens;
        if let Some(kept) = matched {
            piece.token_ids.truncate(kept);
            piece.provenance.truncate(kept);
            choice.decode.stop_after(before + kept);
            piece.finish = Some(FinishReason::Stop);
        } else if let Some(finish) = block.finish {
            let stopped = choice.text.finish(&mut text);
            choice.parts.push(&text, &mut piece);
            piece.finish = Some(if stopped {
                FinishReason::Stop
            } else {
                finish.into()
            });
        }
        if piece.finish.is_some() {
            choice.parts.finish(&mut piece);
            if piece.finish == Some(FinishReason::Stop) && choice.parts.calls() > 0 {
                piece.finish = Some(FinishReason::ToolCalls);
            }
        }
        choice.whole.append(&piece);
        Ok(piece)
    }

    /// Waits for the turn and starts the clock of the work.
    async fn begin(&mut self) -> Result<(), Error> {
        let Stage::Waiting(ticket) = &self.stage else {
            return Ok(());
        };
        if !ticket.wait(&self.abort).await {
            return Err(DecodeError::Aborted.into());
        }
        let Stage::Waiting(ticket) = std::mem::replace(&mut self.stage, Stage::Ended) else {
            unreachable!("the stage was looked at above");
        };
        let turn = ticket.take();
        self.timing.queue_ms = self.clock.elapsed_ms();
        self.clock = Clock::start();
        self.counts = self.shared.counts.get().map(|counts| {
            let now = counts(&turn.ops);
            (now, now)
        });
        self.stage = Stage::Working(turn);
        Ok(())
    }

    /// Sets the next choice up on what the KV cache holds of the prompt.
    fn next_choice(&mut self) -> Result<Choice, Error> {
        let Stage::Working(turn) = &mut self.stage else {
            unreachable!("choices are made by whoever has the turn");
        };
        let Job { prompt, params, .. } = &self.job;
        let index = self.choices.len() as u32;
        let reuse = match self.shared.options.prefix_reuse {
            // The choices of one request share its prompt in any case.
            PrefixReuse::Off if index > 0 => PrefixReuse::Exact,
            reuse => reuse,
        };
        let reused = turn.session.reusable(prompt, reuse);
        self.by_prefill = turn.session.is_by_prefill(reused);
        turn.session.resume(reused);
        if index == 0 {
            if reuse == PrefixReuse::Off {
                turn.draft.forget();
            }
            self.cached_tokens = reused;
            let mut totals = self.shared.totals.borrow_mut();
            totals.prompt_tokens += prompt.len() as u64;
            totals.cached_tokens += reused as u64;
        }

        let mut sequence = Sequence::new(0);
        sequence.commit(prompt);
        sequence.set_kv_len(reused);
        let context = self.shared.model.context_length();
        let sampling = Sampling {
            choice: index,
            ..params.sampling.clone()
        };
        let drafting = params.speculation.filter(|_| self.job.speculation.active);
        let by = drafting.map_or_else(Drafting::default, |config| {
            self.shared.drafters.start(config)
        });
        let options = DecodeOptions {
            stop: StopConditions {
                token_ids: sampling.stop_ids.clone(),
                max_tokens: params.max_tokens.unwrap_or(context) as usize,
                context: context as usize,
            },
            drafter: by.drafter,
            draft_model: by.draft_model,
            adaptive: by.adaptive,
            auto: by.auto,
            num_speculative_tokens: drafting
                .map_or(0, |config| config.num_speculative_tokens as usize),
            steps_a_wait: self.shared.steps_a_wait,
            logprobs: params.logprobs,
            statistics: self.shared.level(&self.job),
            provenance: params.return_token_provenance,
            sampling,
        };
        Ok(Choice {
            text: TextStream::new(
                &self.shared.tokenizer,
                &params.stop,
                params.sampling.min_tokens,
                self.job.marks.without_text(&self.shared.tokenizer)?,
            )?,
            parts: AnswerParts::new(self.job.marks),
            reasoning_tokens: 0,
            drafting,
            decode: DecodeLoop::new(sequence, options, self.abort.clone()),
            whole: Piece {
                index,
                ..Piece::default()
            },
        })
    }

    /// Takes note of what the choice at work left in the KV cache, in the counters, and for later drafts.
    fn settle(&mut self) {
        let (Stage::Working(turn), Some(choice)) = (&mut self.stage, self.choices.last_mut())
        else {
            return;
        };
        let sequence = choice.decode.sequence();
        let held = &sequence.tokens()[..sequence.kv_len()];
        let by_prefill = if self.by_prefill {
            self.job.prompt.len()
        } else {
            0
        };
        turn.session.hold(held, by_prefill, sequence.written());
        self.shared.totals.borrow_mut().speculation += choice.decode.take_counters();
        if let Some(config) = choice.drafting.take() {
            let answer = choice.decode.generated();
            let estimates = choice.decode.acceptance_estimates();
            self.shared.drafters.ended(config, answer, estimates);
        }
        if let (Some((_, now)), Some(counts)) = (&mut self.counts, self.shared.counts.get()) {
            *now = counts(&turn.ops);
        }
    }

    /// Gives the turn, or the place in the queue, up. `finish`: why it ended; `None`: it failed.
    fn end(&mut self, finish: Option<FinishReason>) {
        if matches!(self.stage, Stage::Ended) {
            return;
        }
        self.settle();
        if let Some(choice) = self.choices.last_mut()
            && choice.whole.finish.is_none()
        {
            choice.release();
        }
        if let (None, Stage::Working(turn)) = (finish, &mut self.stage) {
            // A failure may have left anything in the KV cache.
            turn.session.forget();
            turn.draft.forget();
        }
        {
            let mut totals = self.shared.totals.borrow_mut();
            totals.generation_tokens += self.usage().completion_tokens as u64;
            totals.ended(finish);
        }
        self.stage = Stage::Ended;
    }

    fn metrics(&self) -> Option<Metrics> {
        let options = &self.shared.options;
        let one = self.job.params.n == 1;
        let timing = options.enable_per_request_metrics.then(|| {
            let Timing {
                queue_ms,
                first_token_ms,
                last_token_ms,
            } = self.timing;
            if one {
                let tokens = self.usage().completion_tokens;
                TimingMetrics::new(queue_ms, first_token_ms, last_token_ms, tokens)
            } else {
                TimingMetrics::default()
            }
        });
        let level = options.per_request_spec_decode_metrics;
        let speculative_decoding = (level != StatisticsLevel::None).then(|| {
            let described = one && self.job.speculation.active;
            self.statistics()
                .filter(|_| described)
                .map(SpeculativeDecoding::new)
        });
        let foretoken = (level == StatisticsLevel::Detailed).then(|| self.foretoken_metrics());
        (timing.is_some() || speculative_decoding.is_some()).then_some(Metrics {
            timing,
            speculative_decoding,
            foretoken,
        })
    }

    fn foretoken_metrics(&self) -> ForetokenMetrics {
        let SpeculationStatus {
            active,
            method,
            reason,
            ..
        } = self.job.speculation.clone();
        let counts = self.counts;
        let count = |of: fn(DeviceCounts) -> u64| {
            counts.map(|(before, now)| of(now).saturating_sub(of(before)))
        };
        let mut metrics = ForetokenMetrics {
            method,
            active,
            reason,
            seed: self.seed(),
            dispatches: count(|counts| counts.dispatches),
            submits: count(|counts| counts.submits),
            readbacks: count(|counts| counts.readbacks),
            ..ForetokenMetrics::default()
        };
        let choices = self.choices.iter();
        metrics.add(choices.filter_map(|choice| choice.decode.statistics()));
        metrics
    }

    /// The choice that the next piece belongs to; `n` after the last.
    fn next_index(&self) -> u32 {
        match self.choices.last() {
            None => 0,
            Some(choice) => choice.whole.index + u32::from(choice.whole.finish.is_some()),
        }
    }

    fn wants(&self) -> Wants {
        Wants {
            token_ids: self.job.params.return_token_ids,
            provenance: self.job.params.return_token_provenance,
            logprobs: self.job.params.logprobs.is_some(),
        }
    }

    fn prompt_ids(&self) -> Option<Vec<TokenId>> {
        let wanted = self.job.params.return_token_ids;
        wanted.then(|| self.job.prompt.clone())
    }

    /// The prompt's ids, for the first chunk of a stream that asked for ids.
    fn take_prompt_ids(&mut self) -> Option<Vec<TokenId>> {
        if std::mem::replace(&mut self.prompt_ids_sent, true) {
            None
        } else {
            self.prompt_ids()
        }
    }

    fn header(&self, object: usize) -> Header {
        Header {
            object: S::OBJECTS[object],
            ..self.job.header.clone()
        }
    }
}

impl<O: Ops, S: Shape> Drop for Generation<O, S> {
    fn drop(&mut self) {
        self.end(Some(FinishReason::Abort));
    }
}
