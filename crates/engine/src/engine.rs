//! The engine: a loaded model that takes requests, one at a time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use foretoken_core::{LanguageModel, ModelConfig, Ops, TokenId, since_unix_epoch};
use foretoken_decode::{AbortSignal, DecodeError, RowMismatch, Sequence, StatisticsLevel, prefill};
use foretoken_text::Tokenizer;

use crate::answer_parts::Marks;
use crate::counters::{EngineMetrics, Totals};
use crate::draft::{DraftFailure, DraftModel, DraftReport, DraftState};
use crate::drafters::{Costs, Drafters};
use crate::generation::{Generation, Job};
use crate::prompt::chat_prompt;
use crate::request::{
    ChatCompletionRequest, CompletionRequest, Params, Prompt, RequestLimits, invalid,
};
use crate::request_ids::RequestIds;
use crate::response::{Chat, Header, Shape, Text};
use crate::seeds::Seeds;
use crate::session::Session;
use crate::turn::{Queue, Ticket};
use crate::{
    EngineOptions, Error, PrefixReuse, SpeculationStatus, SpeculativeConfig, SpeculativeMethod,
};

/// What the load-time check of row invariance found.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum RowInvariance {
    /// A row's bits do not depend on the rows around it.
    Holds,
    /// They did, until every pass was padded to one row count.
    HoldsPadded {
        /// What was found before.
        before: RowMismatch,
    },
    /// They do, padded or not: answers may depend on how many rows a pass has.
    Broken {
        /// What is still found.
        mismatch: RowMismatch,
    },
    /// It was not looked for.
    NotChecked,
}

/// Exact counts of what a device was given to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Compute dispatches.
    pub dispatches: u64,
    /// Submissions.
    pub submits: u64,
    /// Waits for results.
    pub readbacks: u64,
}

/// Where the ops' counts are.
pub(crate) type CountsOf<O> = fn(&O) -> DeviceCounts;

/// A loaded model over some ops. Clones are handles to the same engine. Requests take turns ([`Generation`]).
pub struct Engine<O: Ops> {
    pub(crate) shared: Rc<Shared<O>>,
}

/// What all handles and generations share.
pub(crate) struct Shared<O: Ops> {
    pub(crate) queue: Rc<Queue<Work<O>>>,
    pub(crate) model: Box<dyn LanguageModel<O>>,
    /// The draft model, where one was given: in use, or why not.
    pub(crate) draft: Option<Result<DraftModel<O>, DraftFailure>>,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) options: EngineOptions,
    pub(crate) row_invariance: RowInvariance,
    pub(crate) drafters: Drafters,
    pub(crate) steps_a_wait: usize,
    pub(crate) totals: RefCell<Totals>,
    pub(crate) seeds: Seeds,
    pub(crate) counts: Cell<Option<CountsOf<O>>>,
    fingerprint: String,
    ids: RequestIds,
}

/// What loading found out about device and model.
pub(crate) struct Measured {
    pub(crate) row_invariance: RowInvariance,
    /// What passes cost; unknown without speculation.
    pub(crate) costs: Option<Costs>,
    pub(crate) steps_a_wait: usize,
}

/// What a request changes: only who has the turn has it.
pub(crate) struct Work<O> {
    pub(crate) ops: O,
    pub(crate) session: Session,
    /// What the draft model has read.
    pub(crate) draft: DraftState,
}

impl<O: Ops> Clone for Engine<O> {
    fn clone(&self) -> Self {
        Self {
            shared: Rc::clone(&self.shared),
        }
    }
}

/// What the bits of an answer depend on beside the request and the file.
fn fingerprint(options: &EngineOptions) -> String {
    let quantized = options.quantize.map_or(String::new(), |quantize| {
        format!(" quantize={}", quantize.name())
    });
    format!(
        "foretoken-{} {}{quantized}",
        env!("CARGO_PKG_VERSION"),
        options.device
    )
}

impl<O: Ops> std::fmt::Debug for Engine<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("model", &self.shared.options.model_name)
            .field("fingerprint", &self.shared.fingerprint)
            .finish_non_exhaustive()
    }
}

impl<O: Ops> Engine<O> {
    pub(crate) fn assemble(
        ops: O,
        model: Box<dyn LanguageModel<O>>,
        draft: Option<Result<DraftModel<O>, DraftFailure>>,
        tokenizer: Tokenizer,
        measured: Measured,
        options: EngineOptions,
    ) -> Self {
        let Measured {
            row_invariance,
            costs,
            steps_a_wait,
        } = measured;
        let work = Work {
            ops,
            session: Session::new(model.rewind()),
            draft: DraftState::default(),
        };
        Self {
            shared: Rc::new(Shared {
                queue: Queue::new(work),
                model,
                draft,
                tokenizer,
                fingerprint: fingerprint(&options),
                drafters: Drafters::new(options.speculative_config, costs),
                options,
                row_invariance,
                steps_a_wait,
                totals: RefCell::default(),
                seeds: Seeds::new(),
                counts: Cell::new(None),
                ids: RequestIds::new(),
            }),
        }
    }

    /// Joins the queue with a chat completion.
    ///
    /// # Errors
    /// If the request names another model, the file has no chat template or its template refuses the
    /// messages, the prompt is longer than the context, or the queue is full.
    pub fn chat(
        &self,
        request: &ChatCompletionRequest,
        abort: AbortSignal,
    ) -> Result<Generation<O, Chat>, Error> {
        self.check_model(&request.params)?;
        let ticket = self.join(&abort)?;
        let (prompt, marks) = chat_prompt(&self.shared.tokenizer, request, self.limits().context)?;
        self.start(ticket, prompt, marks, "messages", &request.params, abort)
    }

    /// Joins the queue with a text completion.
    ///
    /// # Errors
    /// If the request names another model, the prompt is longer than the context, or the queue is full.
    pub fn complete(
        &self,
        request: &CompletionRequest,
        abort: AbortSignal,
    ) -> Result<Generation<O, Text>, Error> {
        self.check_model(&request.params)?;
        let ticket = self.join(&abort)?;
        let tokenizer = &self.shared.tokenizer;
        let prompt = match &request.prompt {
            Prompt::Tokens(tokens) => tokens.clone(),
            Prompt::Text(text) => tokenizer.encode_prompt(text, true, tokenizer.adds_bos())?,
        };
        let marks = Marks::default();
        self.start(ticket, prompt, marks, "prompt", &request.params, abort)
    }

    /// Uses a pause: with [`PrefixReuse::Exact`], the last answer's tokens run through prefill, so that a next turn that
    /// repeats them finds them in the KV cache. Front ends call it after an answer and await it; it ends at once if there
    /// is nothing to do, and at the next pass when a request comes. Dropping it is harmless.
    ///
    /// # Errors
    /// Whatever the device says.
    pub async fn idle(&self) -> Result<(), Error> {
        let shared = &self.shared;
        if shared.options.prefix_reuse != PrefixReuse::Exact {
            return Ok(());
        }
        let abort = AbortSignal::new();
        let Some(ticket) = shared.queue.join_if_idle(abort.clone()) else {
            return Ok(());
        };
        let Some(mut turn) = ticket.turn(&abort).await else {
            return Ok(());
        };
        let Some((tokens, from)) = turn.session.to_prefill(self.limits().context) else {
            return Ok(());
        };
        let mut sequence = Sequence::new(0);
        sequence.commit(&tokens);
        sequence.set_kv_len(from);
        let ran = prefill(&mut turn.ops, shared.model.as_ref(), &mut sequence, &abort).await;
        match ran {
            Ok(_) | Err(DecodeError::Aborted) => {
                let (kv_len, written) = (sequence.kv_len(), sequence.written());
                turn.session.prefilled(from, kv_len, written);
                Ok(())
            }
            Err(error) => {
                // A failure may have left anything in the KV cache.
                turn.session.forget();
                Err(error.into())
            }
        }
    }

    /// What a request may ask for.
    pub fn limits(&self) -> RequestLimits {
        RequestLimits {
            context: self.shared.model.context_length(),
            vocab: self.shared.model.config().vocab_size,
            speculation: self.shared.options.speculative_config,
        }
    }

    /// The name it serves the model under.
    pub fn model_name(&self) -> &str {
        &self.shared.options.model_name
    }

    /// The model's dimensions.
    pub fn config(&self) -> &ModelConfig {
        self.shared.model.config()
    }

    /// What the load-time check found.
    pub fn row_invariance(&self) -> RowInvariance {
        self.shared.row_invariance
    }

    /// Steps that one wait reads; 0: every step waits for the one before it.
    pub fn steps_a_wait(&self) -> usize {
        self.shared.steps_a_wait
    }

    /// Whether requests draft, and why not if they were to.
    pub fn speculation(&self) -> SpeculationStatus {
        self.shared
            .speculation(self.shared.options.speculative_config)
    }

    /// The draft model that is in use.
    pub fn draft(&self) -> Option<DraftReport> {
        self.shared.draft_model().map(DraftModel::report)
    }

    /// Why a draft model that was given is not in use.
    pub fn draft_failure(&self) -> Option<&DraftFailure> {
        self.shared.draft.as_ref()?.as_ref().err()
    }

    /// Totals over all requests.
    pub fn metrics(&self) -> EngineMetrics {
        let k = self.shared.options.speculative_config;
        let k = k.map_or(0, |config| config.num_speculative_tokens as usize);
        let queue = self.shared.queue.lengths();
        self.shared.totals.borrow().metrics(queue, k)
    }

    /// Looks at the ops underneath; `None` while a request is at work.
    pub fn with_ops<R>(&self, look: impl FnOnce(&O) -> R) -> Option<R> {
        self.shared.queue.with_idle(|work| look(&work.ops))
    }

    /// Says where the ops' counts are, for `metrics.foretoken`.
    pub fn count_with(&self, counts: fn(&O) -> DeviceCounts) {
        self.shared.counts.set(Some(counts));
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.shared.tokenizer
    }

    fn check_model(&self, params: &Params) -> Result<(), Error> {
        let served = &self.shared.options.model_name;
        match &params.model {
            Some(requested) if requested != served => Err(Error::ModelNotServed {
                requested: requested.chars().take(128).collect(),
                served: served.clone(),
            }),
            _ => Ok(()),
        }
    }

    pub(crate) fn join(&self, abort: &AbortSignal) -> Result<Ticket<Work<O>>, Error> {
        self.shared.queue.join(abort.clone()).ok_or(Error::Busy)
    }

    fn start<S: Shape>(
        &self,
        ticket: Ticket<Work<O>>,
        prompt: Vec<TokenId>,
        marks: Marks,
        param: &'static str,
        params: &Params,
        abort: AbortSignal,
    ) -> Result<Generation<O, S>, Error> {
        let RequestLimits { context, vocab, .. } = self.limits();
        // A folder's tokenizer may know tokens that the model has no embedding for (Gemma's for images).
        if let Some(token) = prompt.iter().find(|token| **token >= vocab) {
            return Err(Error::InvalidRequest {
                param: Some(param.to_owned()),
                message: format!(
                    "`{param}` spells token {token}, which this model has no embedding for: it has {vocab}"
                ),
            });
        }
        if prompt.is_empty() {
            return Err(Error::InvalidRequest {
                param: Some(param.to_owned()),
                message: format!("`{param}` makes a prompt without any token: give it some text"),
            });
        }
        if prompt.len() as u64 >= u64::from(context) {
            return Err(Error::ContextLengthExceeded {
                param,
                prompt: prompt.len(),
                context,
            });
        }

        let shared = &self.shared;
        let method = params.speculation.map(|config| config.method);
        if method == Some(SpeculativeMethod::DraftModel) && shared.draft.is_none() {
            return Err(invalid(
                "speculative_config.method",
                "`speculative_config.method` cannot be \"draft_model\": this engine was loaded without a draft model",
            ));
        }
        let mut params = params.clone();
        params.sampling.seed = params.seed.unwrap_or_else(|| shared.seeds.draw());
        params.sampling.stop_ids = params.stop_token_ids.clone();
        if !params.ignore_eos {
            let ends = shared.tokenizer.end_of_generation();
            params.sampling.stop_ids.extend(ends);
        }
        // A model whose embedding has fewer rows than its tokenizer has tokens could not choose them anyway.
        let vocab = shared.model.config().vocab_size;
        params.sampling.stop_ids.retain(|token| *token < vocab);
        params.include_usage |= params.stream && shared.options.enable_force_include_usage;
        let header = Header {
            id: shared.ids.next(S::ID_PREFIX),
            object: S::OBJECTS[0],
            created: since_unix_epoch().as_secs(),
            model: shared.options.model_name.clone(),
            system_fingerprint: shared.fingerprint.clone(),
        };
        let job = Job {
            speculation: shared.speculation(params.speculation),
            prompt,
            params,
            header,
            marks,
        };
        Ok(Generation::new(Rc::clone(shared), ticket, job, abort))
    }
}

impl<O: Ops> Shared<O> {
    /// Whether a request that was configured so drafts.
    fn speculation(&self, config: Option<SpeculativeConfig>) -> SpeculationStatus {
        let method = config.map(|config| config.method);
        let reason = match (method, self.row_invariance, &self.draft) {
            (Some(_), RowInvariance::Broken { mismatch }, _) => Some(format!(
                "on this device a row's bits depend on the rows around it ({mismatch}), so verifying drafts \
                 could change an answer"
            )),
            (Some(SpeculativeMethod::DraftModel), _, Some(Err(failure))) => {
                Some(failure.to_string())
            }
            _ => None,
        };
        SpeculationStatus {
            active: method.is_some() && reason.is_none(),
            method,
            reason,
            draft_mapped_share: self
                .draft_model()
                .and_then(|draft| draft.report().mapped_share),
            draft_problem: match &self.draft {
                Some(Err(failure)) => Some(failure.to_string()),
                _ => None,
            },
            draft: self.draft.as_ref().map(|draft| match draft {
                Ok(draft) => draft.name.clone(),
                Err(failure) => failure.name.clone(),
            }),
        }
    }

    /// The draft model that is in use.
    pub(crate) fn draft_model(&self) -> Option<&DraftModel<O>> {
        self.draft.as_ref()?.as_ref().ok()
    }

    /// What to count of a request's acceptance: no more than its response tells.
    pub(crate) fn level(&self, job: &Job) -> StatisticsLevel {
        match self.options.per_request_spec_decode_metrics {
            StatisticsLevel::Summary if !job.speculation.active || job.params.n > 1 => {
                StatisticsLevel::None
            }
            level => level,
        }
    }
}
