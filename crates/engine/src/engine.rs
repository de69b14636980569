//! The engine: a loaded model that takes requests, one at a time.

use foretoken_core::{Clock, LanguageModel, ModelConfig, Ops, TokenId, since_unix_epoch};
use foretoken_decode::{AbortSignal, Block, DecodeLoop, RowMismatch, Sequence, StopConditions};
use foretoken_text::Tokenizer;

use crate::Error;
use crate::generation::{Generation, Start};
use crate::prompt::chat_prompt;
use crate::request::{ChatCompletionRequest, CompletionRequest, Params, Prompt, RequestLimits};
use crate::request_ids::RequestIds;
use crate::response::{Chat, Header, Shape, Text};
use crate::text_stream::TextStream;

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

/// A loaded model over some ops. One request runs at a time: a [`Generation`] borrows the engine.
pub struct Engine<O: Ops> {
    pub(crate) ops: O,
    pub(crate) model: Box<dyn LanguageModel<O>>,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) model_name: String,
    pub(crate) fingerprint: String,
    pub(crate) row_invariance: RowInvariance,
    pub(crate) ids: RequestIds,
}

impl<O: Ops> std::fmt::Debug for Engine<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("model", &self.model_name)
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

impl<O: Ops> Engine<O> {
    /// Starts a chat completion.
    ///
    /// # Errors
    /// If the request names another model, the file has no chat template or its template refuses the
    /// messages, or the prompt is longer than the context.
    pub fn chat(
        &mut self,
        request: &ChatCompletionRequest,
        abort: AbortSignal,
    ) -> Result<Generation<'_, O, Chat>, Error> {
        let clock = Clock::start();
        self.check_model(&request.params)?;
        let prompt = chat_prompt(
            &self.tokenizer,
            &request.messages,
            self.model.context_length(),
        )?;
        self.start(prompt, "messages", &request.params, abort, clock)
    }

    /// Starts a text completion.
    ///
    /// # Errors
    /// If the request names another model or the prompt is longer than the context.
    pub fn complete(
        &mut self,
        request: &CompletionRequest,
        abort: AbortSignal,
    ) -> Result<Generation<'_, O, Text>, Error> {
        let clock = Clock::start();
        self.check_model(&request.params)?;
        let prompt = match &request.prompt {
            Prompt::Tokens(tokens) => tokens.clone(),
            Prompt::Text(text) => {
                self.tokenizer
                    .encode_prompt(text, true, self.tokenizer.adds_bos())?
            }
        };
        self.start(prompt, "prompt", &request.params, abort, clock)
    }

    /// What a request may ask for.
    pub fn limits(&self) -> RequestLimits {
        RequestLimits {
            context: self.model.context_length(),
            vocab: self.model.config().vocab_size,
        }
    }

    /// The name it serves the model under.
    pub fn model_name(&self) -> &str {
        &self.model_name
    }

    /// The model's dimensions.
    pub fn config(&self) -> &ModelConfig {
        self.model.config()
    }

    /// What the load-time check found.
    pub fn row_invariance(&self) -> RowInvariance {
        self.row_invariance
    }

    /// The ops underneath: for their counters.
    pub fn ops(&self) -> &O {
        &self.ops
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// One step of a decode loop on this engine's model.
    pub(crate) async fn step(&mut self, decode: &mut DecodeLoop) -> Result<Block, Error> {
        Ok(decode.step(&mut self.ops, self.model.as_ref()).await?)
    }

    fn check_model(&self, params: &Params) -> Result<(), Error> {
        match &params.model {
            Some(requested) if *requested != self.model_name => Err(Error::ModelNotServed {
                requested: requested.chars().take(128).collect(),
                served: self.model_name.clone(),
            }),
            _ => Ok(()),
        }
    }

    fn start<S: Shape>(
        &mut self,
        prompt: Vec<TokenId>,
        param: &'static str,
        params: &Params,
        abort: AbortSignal,
        clock: Clock,
    ) -> Result<Generation<'_, O, S>, Error> {
        let context = self.model.context_length();
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

        let mut token_ids = params.stop_token_ids.clone();
        if !params.ignore_eos {
            token_ids.extend(self.tokenizer.end_of_generation());
        }
        let stop = StopConditions {
            token_ids,
            max_tokens: params.max_tokens.unwrap_or(context) as usize,
            context: context as usize,
        };
        let mut sequence = Sequence::new(0);
        sequence.commit(&prompt);
        let start = Start {
            decode: DecodeLoop::new(sequence, stop, abort),
            text: TextStream::new(&self.tokenizer, &params.stop)?,
            header: Header {
                id: self.ids.next(S::ID_PREFIX),
                object: S::OBJECTS[0],
                created: since_unix_epoch().as_secs(),
                model: self.model_name.clone(),
                system_fingerprint: self.fingerprint.clone(),
            },
            include_usage: params.include_usage,
            return_token_ids: params.return_token_ids,
            clock,
        };
        Ok(Generation::new(self, start))
    }
}
