//! The draft model: a second model that proposes what the first, the target, verifies.
//!
//! It is there to be faster, so nothing that is wrong with it alone keeps the target from answering: whatever its file, its
//! vocabulary or its share of the device's memory rule out becomes a [`DraftFailure`], and the engine carries on without it.

use std::fmt;
use std::sync::Arc;

use foretoken_core::{Chosen, LanguageModel, Ops, TokenId};
use foretoken_decode::{DecodeError, Draft, DraftCache, DraftVocabulary, Translation};
use foretoken_models::{LoadOptions, Quantization, load_model, trained_context_length};
use foretoken_text::{FollowedTokens, Tokenizer, VocabularyMap, VocabularyMatch};
use foretoken_weights::{ByteSource, Gguf};
use serde::Serialize;

use crate::measure::{first_choice, time_wait};
use crate::prepare::prepare_draft;
use crate::request::invalid;
use crate::tokenizer::read_tokenizer;
use crate::{EngineOptions, Error, SpeculativeMethod};

/// Where a draft model comes from.
#[derive(Debug)]
pub struct DraftSource<'a, S: ?Sized> {
    /// What it is called in reports and reasons.
    pub name: String,
    /// Its GGUF file or folder; or why there is nothing to load, in one line: then the engine carries on without a draft.
    pub file: Result<&'a S, String>,
}

/// Why a draft model that was given is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftFailure {
    /// What the draft is called.
    pub name: String,
    /// What is wrong with it, in one line.
    pub message: String,
    /// Whether its file is damaged, so that a copy of it is better not kept.
    pub is_corrupt: bool,
}

impl fmt::Display for DraftFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, message, .. } = self;
        write!(f, "the draft model {name} cannot be used: {message}")
    }
}

impl DraftFailure {
    fn of(name: &str, error: &Error) -> Self {
        Self {
            name: name.to_owned(),
            message: error.to_string(),
            is_corrupt: error.code() == "corrupt_weights",
        }
    }
}

/// A draft model in use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DraftReport {
    /// What it is called.
    pub name: String,
    /// Positions of its KV cache: the target's, or as many as it was trained for. Beyond them nothing is drafted.
    pub context_length: u32,
    /// Where its vocabulary is another than the target's: the part of a sample text that both write in the same tokens, 0 to 1. Only
    /// tokens that both have are proposed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapped_share: Option<f32>,
    /// Milliseconds that drafting a token takes: a pass of one row, measured at load.
    pub token_ms: f64,
}

/// Another vocabulary than the target's.
struct Vocabulary<O: Ops> {
    map: Arc<VocabularyMap>,
    to_target: O::TokenMap,
}

/// What a draft model has read, for whoever has the turn.
#[derive(Default)]
pub(crate) struct DraftState {
    cache: DraftCache,
    followed: Option<Followed>,
}

impl DraftState {
    /// A failure may have left anything in the KV cache.
    pub(crate) fn forget(&mut self) {
        self.cache = DraftCache::default();
    }
}

/// The committed tokens in the draft model's own.
struct Followed {
    tokens: FollowedTokens,
    map: Arc<VocabularyMap>,
}

impl Translation for Followed {
    fn translate(&mut self, committed: &[TokenId]) -> Option<&[TokenId]> {
        self.tokens.follow_whole(committed);
        (!self.tokens.ends_within_character()).then(|| self.tokens.tokens())
    }

    fn counterpart(&self, proposed: TokenId) -> Option<TokenId> {
        self.map.draft_token(proposed)
    }
}

/// A loaded draft model.
pub(crate) struct DraftModel<O: Ops> {
    pub(crate) name: String,
    pub(crate) model: Box<dyn LanguageModel<O>>,
    /// Where its vocabulary is another than the target's.
    vocabulary: Option<Vocabulary<O>>,
    /// As [`DraftReport::token_ms`].
    pub(crate) token_ms: f64,
}

impl<O: Ops> DraftModel<O> {
    pub(crate) fn report(&self) -> DraftReport {
        DraftReport {
            name: self.name.clone(),
            context_length: self.model.context_length(),
            mapped_share: self.vocabulary.as_ref().map(|v| v.map.share().of_text),
            token_ms: self.token_ms,
        }
    }

    /// It, for a step.
    pub(crate) fn draft<'a>(&'a self, state: &'a mut DraftState) -> Draft<'a, O> {
        let DraftState { cache, followed } = state;
        let vocabulary = self.vocabulary.as_ref().map(|vocabulary| {
            let map = &vocabulary.map;
            let translation = followed.get_or_insert_with(|| Followed {
                tokens: FollowedTokens::new(Arc::clone(map)),
                map: Arc::clone(map),
            });
            DraftVocabulary {
                to_target: &vocabulary.to_target,
                translation,
            }
        });
        Draft {
            model: self.model.as_ref(),
            cache,
            vocabulary,
        }
    }

    /// Makes what drafting up to `prepare` tokens for `target` needs, if that is given, and measures what a pass takes.
    pub(crate) async fn make_ready(
        mut self,
        ops: &mut O,
        target: &dyn LanguageModel<O>,
        prepare: Option<usize>,
    ) -> Result<Result<Self, DraftFailure>, Error> {
        match self.try_out(ops, target, prepare).await {
            Ok(token_ms) => {
                self.token_ms = token_ms;
                Ok(Ok(self))
            }
            Err(error) => {
                let Self { name, model, .. } = self;
                drop(model);
                give_up(ops, &name, error).await.map(Err)
            }
        }
    }

    /// Makes that and measures it; fails where the model computes no numbers.
    async fn try_out(
        &self,
        ops: &mut O,
        target: &dyn LanguageModel<O>,
        prepare: Option<usize>,
    ) -> Result<f64, Error> {
        if let Some(most) = prepare {
            let mut state = DraftState::default();
            prepare_draft(ops, target, self.draft(&mut state), most)?;
        }
        // Such a one would propose nothing for ever, and nobody would know why.
        if let Some(Chosen::NonFinite) = first_choice(ops, self.model.as_ref()).await? {
            return Err(DecodeError::NonFinite { position: 0 }.into());
        }
        Ok(time_wait(ops, self.model.as_ref()).await?.pass_ms())
    }
}

impl EngineOptions {
    /// Holds what speculation is to be against whether a draft model is `given`: what [`Engine::load_with_draft`](crate::Engine::load_with_draft)
    /// looks at first.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] where a draft is given without `speculative_config`, or the method is `draft_model` and there is none.
    pub fn check_draft(&self, given: bool) -> Result<(), Error> {
        let method = self.speculative_config.map(|config| config.method);
        match (method, given) {
            (None, true) => Err(invalid(
                "speculative_config",
                "a draft model is given and `speculative_config` is not: pass \
                 {\"method\": \"draft_model\", \"num_speculative_tokens\": 3}, or leave the draft model out",
            )),
            (Some(SpeculativeMethod::DraftModel), false) => Err(invalid(
                "speculative_config.method",
                "`speculative_config.method` is \"draft_model\" and no draft model is given: pass it as `draftModel` or \
                 --draft-model, or name it in `speculative_config.model`",
            )),
            _ => Ok(()),
        }
    }
}

/// A draft model whose header was read.
pub(crate) struct DraftHeader<'a, S: ?Sized> {
    name: String,
    source: &'a S,
    pub(crate) gguf: Gguf,
    /// Where its vocabulary is another than the target's.
    map: Option<Arc<VocabularyMap>>,
}

impl<'a, S: ByteSource + ?Sized> DraftHeader<'a, S> {
    /// Reads header and tokenizer and holds the vocabulary against the target's.
    pub(crate) async fn read(
        draft: &DraftSource<'a, S>,
        target: &Tokenizer,
    ) -> Result<Self, DraftFailure> {
        let name = draft.name.clone();
        let source = match &draft.file {
            Ok(source) => *source,
            Err(message) => {
                return Err(DraftFailure {
                    name,
                    message: message.clone(),
                    is_corrupt: false,
                });
            }
        };
        let read = async {
            let gguf = Gguf::read(source).await?;
            let tokenizer = read_tokenizer(source, &gguf).await?;
            Ok((gguf, tokenizer))
        };
        let (gguf, tokenizer) = read
            .await
            .map_err(|error: Error| DraftFailure::of(&name, &error))?;
        let map = match VocabularyMatch::between(Arc::new(tokenizer), target) {
            VocabularyMatch::Same => None,
            VocabularyMatch::Mapped(map) => Some(Arc::new(map)),
        };
        if let Some(message) = map.as_ref().and_then(|map| map.share().too_small()) {
            return Err(DraftFailure {
                name,
                message,
                is_corrupt: false,
            });
        }
        Ok(Self {
            name,
            source,
            gguf,
            map,
        })
    }

    /// Bytes of its weights.
    pub(crate) fn bytes(&self) -> u64 {
        self.gguf.tensors.iter().map(|tensor| tensor.bytes).sum()
    }

    /// Loads its weights beside those of `target`. Only what is wrong with the device itself is an [`Error`].
    pub(crate) async fn load<O: Ops + 'static>(
        self,
        ops: &mut O,
        target: &dyn LanguageModel<O>,
        quantize: Option<Quantization>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Result<DraftModel<O>, DraftFailure>, Error> {
        let Self { gguf, source, .. } = &self;
        let options = draft_options(gguf, target.context_length(), quantize);
        let loaded = async {
            let model = load_model(ops, gguf, *source, options, progress).await?;
            let vocabulary = match &self.map {
                Some(map) => Some(Vocabulary {
                    to_target: ops.token_map("draft vocabulary", map.to_target())?,
                    map: Arc::clone(map),
                }),
                None => None,
            };
            Ok(DraftModel {
                name: self.name.clone(),
                model,
                vocabulary,
                token_ms: 0.0,
            })
        };
        match loaded.await {
            Ok(draft) => Ok(Ok(draft)),
            Err(error) => give_up(ops, &self.name, error).await.map(Err),
        }
    }
}

/// How a draft is loaded beside a target whose context is `context`: with one of its own as long, if it was trained for that
/// many positions, and quantised where there is something to quantise. Of a file that does not say for how many, loading tells.
pub(crate) fn draft_options(
    gguf: &Gguf,
    context: u32,
    quantize: Option<Quantization>,
) -> LoadOptions {
    let trained = trained_context_length(gguf).unwrap_or(context);
    LoadOptions {
        context_length: Some(context.min(trained)),
        quantize: quantize.filter(|quantize| quantize.changes(gguf)),
        ..LoadOptions::default()
    }
}

/// Carries on without a draft that failed with `error` and was dropped. An error of the device itself stays one.
async fn give_up<O: Ops>(ops: &mut O, name: &str, error: Error) -> Result<DraftFailure, Error> {
    if error.code() == "device_lost" {
        return Err(error);
    }
    ops.discard();
    // The device may have more to say of it, and that is about nobody else: which buffers there was no memory for, and then, when
    // all that was submitted has been done, of what was written to those.
    for _ in 0..2 {
        if let Err(late) = ops.flush().await {
            let late = Error::from(late);
            if late.code() == "device_lost" {
                return Err(late);
            }
        }
        ops.forget_failures();
    }
    Ok(DraftFailure::of(name, &error))
}
