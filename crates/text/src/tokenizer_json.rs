//! Hugging Face's `tokenizer.json`, read step by step.
//!
//! The `tokenizers` library reads such a file itself, with every kind of step there is. Here only what language models use is
//! known, which keeps the code small where it is downloaded, and each step is one that takes time in proportion to the text. What is not known is an
//! error by its name: a step left out gives other ids than the model was trained on.

mod file;
mod steps;

use serde::Deserialize;
use serde_json::Value;
use tokenizers::models::bpe::BPE;
use tokenizers::models::unigram::Unigram;

use self::file::{AddedToken, Config, File, Merge, ModelFile, Named, Vocabulary};
use self::steps::{cutters, decoder, normalizers, template_bos, unsupported};
use crate::error::shortened;
use crate::pipeline::{Cutter, Normalizer, Pipeline, WordModel, library};
use crate::sentence_piece::spelled_byte;
use crate::tokenizer::{Encoder, Entry, Parts, merges, ordinary};
use crate::vocabulary::{BYTE, CONTROL, NORMAL, UNUSED, USER_DEFINED};
use crate::{TextError, Tokenizer, VocabularySpec};

const FILE: &str = "tokenizer.json";
const CONFIG: &str = "tokenizer_config.json";
/// Names of templates, where a configuration has several: the one for chats, and the one for chats with tools.
const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";

/// Spells a token so that no text can become it: spaces never reach a vocabulary of these kinds.
const UNSPELLABLE: &str = " \u{0}";

fn parse<'a, T: Deserialize<'a>>(file: &'static str, bytes: &'a [u8]) -> Result<T, TextError> {
    serde_json::from_slice(bytes).map_err(|error| TextError::TokenizerFile {
        file,
        message: shortened(&error.to_string()),
    })
}

/// The tokens in the order of ids and their types.
fn tokens(model: &ModelFile, added: &[AddedToken]) -> Result<(Vec<String>, Vec<i32>), TextError> {
    let damaged = |message: String| TextError::TokenizerFile {
        file: FILE,
        message,
    };
    let of_model: Vec<(&str, u32)> = match &model.vocab {
        Vocabulary::Ids(ids) => ids
            .iter()
            .map(|(token, id)| (token.as_str(), *id))
            .collect(),
        Vocabulary::Scores(scores) => scores
            .iter()
            .zip(0..)
            .map(|((token, _), id)| (token.as_str(), id))
            .collect(),
    };
    let count = of_model.len() + added.len();
    if count == 0 {
        return Err(damaged("the vocabulary has no tokens".to_owned()));
    }
    // Ids may have gaps, but what is allocated is bounded by what the file has.
    let limit = count * 2 + 1024;
    let ids = of_model.iter().map(|(_, id)| *id);
    let last = ids.chain(added.iter().map(|token| token.id)).max();
    let length = last
        .and_then(|last| usize::try_from(last).ok()?.checked_add(1))
        .filter(|length| *length <= limit)
        .ok_or_else(|| {
            damaged(format!(
                "the highest id is {}, but there are {count} tokens",
                last.unwrap_or_default()
            ))
        })?;
    let mut tokens = vec![String::new(); length];
    let mut types = vec![UNUSED; length];
    let mut place = |token: &str, id: u32, kind: i32| {
        let at = usize::try_from(id).unwrap_or(usize::MAX);
        if let (Some(slot), Some(type_slot)) = (tokens.get_mut(at), types.get_mut(at)) {
            if !slot.is_empty() && slot != token {
                return Err(damaged(format!(
                    "id {id} is {:?} and {:?}",
                    shortened(slot),
                    shortened(token)
                )));
            }
            *slot = token.to_owned();
            *type_slot = kind;
        }
        Ok(())
    };
    for (token, id) in of_model {
        let spells_byte = model.byte_fallback && spelled_byte(token).is_some();
        place(token, id, if spells_byte { BYTE } else { NORMAL })?;
    }
    for token in added {
        if token.single_word && !token.special {
            return Err(unsupported("added_tokens", "single_word"));
        }
        let kind = if token.special { CONTROL } else { USER_DEFINED };
        place(&token.content, token.id, kind)?;
    }
    Ok((tokens, types))
}

/// The id of a token that the configuration names.
fn named(
    field: &'static str,
    token: &Option<Named>,
    tokens: &[String],
) -> Result<Option<u32>, TextError> {
    let Some(Named(Some(token))) = token else {
        return Ok(None);
    };
    let id = tokens.iter().position(|known| known == token);
    match id.and_then(|id| u32::try_from(id).ok()) {
        Some(id) => Ok(Some(id)),
        None => Err(TextError::UnknownToken {
            field,
            token: shortened(token),
        }),
    }
}

/// The template of the configuration: the only one, or of several the one that has the name `name`.
fn chat_template(value: &Value, name: &str) -> Option<String> {
    match value {
        Value::String(source) if name == DEFAULT => Some(source.clone()),
        Value::Array(templates) => {
            let template = templates.iter().find(|template| template["name"] == name)?;
            template["template"].as_str().map(str::to_owned)
        }
        _ => None,
    }
}

impl Tokenizer {
    /// Reads `tokenizer.json` of Hugging Face's `tokenizers` (models BPE and Unigram), and from `tokenizer_config.json` BOS, EOS, whether
    /// they are added, and the chat templates (of several, those named `default` and `tool_use`).
    ///
    /// Ids that end an answer and are in neither file (`generation_config.json`) come in by
    /// [`Tokenizer::with_end_of_generation`], a template in a file of its own by [`Tokenizer::with_chat_template`].
    ///
    /// A token that is added with `normalized: true` is looked for in the text as it was written, before any normalization.
    ///
    /// # Errors
    /// A file that is not such JSON; a step or a model that is not known, by its name; a look-ahead other than those of published files;
    /// merges of or into tokens that are not there; ids that leave gaps larger than the vocabulary.
    pub fn from_json(
        tokenizer_json: &[u8],
        tokenizer_config: Option<&[u8]>,
    ) -> Result<Self, TextError> {
        let file: File = parse(FILE, tokenizer_json)?;
        let config: Config = match tokenizer_config {
            Some(bytes) => parse(CONFIG, bytes)?,
            None => Config::default(),
        };
        let (tokens, token_types) = tokens(&file.model, &file.added_tokens)?;
        let (spelling, adds_space) = decoder(&file.decoder)?;
        let template_bos = template_bos(&file.post_processor)?
            .filter(|id| usize::try_from(*id).is_ok_and(|id| id < tokens.len()));
        let bos = named("bos_token", &config.bos_token, &tokens)?.or(template_bos);
        // Which of them begins a text is for `add_bos_token` to say.
        if template_bos.is_some_and(|id| Some(id) != bos) && config.add_bos_token.is_none() {
            return Err(unsupported(
                "post_processor",
                "with another token in front than bos_token",
            ));
        }
        let spec = VocabularySpec {
            bos,
            eos: named("eos_token", &config.eos_token, &tokens)?,
            add_bos: config.add_bos_token.filter(|_| bos.is_some()),
            add_eos: config.add_eos_token,
            chat_template: chat_template(&config.chat_template, DEFAULT),
            tool_use_template: chat_template(&config.chat_template, TOOL_USE),
            tokens,
            token_types,
            ..VocabularySpec::default()
        };
        let trims = file
            .added_tokens
            .iter()
            .filter(|token| token.lstrip || token.rstrip);
        let parts = Parts {
            spelling,
            adds_bos: template_bos.is_some() && template_bos == bos,
            adds_space,
            trims: trims
                .map(|token| (token.id, token.lstrip, token.rstrip))
                .collect(),
        };
        let normalizers = normalizers(&file.normalizer)?;
        let (cutters, cuts_at_spaces) = cutters(&file.pre_tokenizer)?;
        let cuts_at_spaces = cuts_at_spaces && matches!(normalizers[..], [] | [Normalizer::Nfc]);
        let spaces_reach_the_model = !cutters
            .iter()
            .any(|cutter| matches!(cutter, Cutter::Metaspace { .. } | Cutter::Letters(_)))
            && !normalizers.iter().any(|normalizer| {
                matches!(normalizer, Normalizer::Replace(from, to) if from == " " && !to.contains(' '))
            });
        if spaces_reach_the_model {
            return Err(unsupported(
                "pre_tokenizer",
                "without ByteLevel or Metaspace",
            ));
        }
        let model = file.model;
        Self::assemble(spec, parts, |_, entries, control| {
            let model = match model.kind.as_deref() {
                Some("BPE") | None => bpe(model, entries, control)?,
                Some("Unigram") => unigram(model, entries)?,
                Some(other) => return Err(unsupported("model", other)),
            };
            Ok(Encoder::Steps(Box::new(Pipeline {
                normalizers,
                cutters,
                model,
                cuts_at_spaces,
            })))
        })
    }
}

fn bpe(
    model: ModelFile,
    entries: &[Entry<'_>],
    control: &crate::control_tokens::ControlTokens,
) -> Result<WordModel, TextError> {
    for affix in [&model.continuing_subword_prefix, &model.end_of_word_suffix] {
        if let Some(affix) = affix.as_deref().filter(|affix| !affix.is_empty()) {
            return Err(unsupported("model", format!("BPE with affix {affix}")));
        }
    }
    let mut ordinary = ordinary(entries);
    let pairs = model.merges.iter().enumerate().map(|(index, merge)| {
        merge.pair().ok_or_else(|| TextError::MalformedMerge {
            index: index as u64,
            merge: match merge {
                Merge::Line(line) => shortened(line),
                Merge::Pair(left, right) => shortened(&format!("{left} {right}")),
            },
        })
    });
    let merges = merges(pairs, &ordinary, control)?;
    let unknown = model.unk_token.as_deref().and_then(|unknown| {
        let entry = entries.iter().find(|entry| entry.token == unknown)?;
        ordinary.insert(UNSPELLABLE.to_owned(), entry.id);
        Some(UNSPELLABLE)
    });
    let mut builder = BPE::builder()
        .vocab_and_merges(ordinary, merges)
        .ignore_merges(model.ignore_merges)
        .byte_fallback(model.byte_fallback)
        .fuse_unk(model.fuse_unk)
        .cache_capacity(0);
    if let Some(unknown) = unknown {
        builder = builder.unk_token(unknown.to_owned());
    }
    Ok(WordModel::Bpe(Box::new(builder.build().map_err(library)?)))
}

fn unigram(model: ModelFile, entries: &[Entry<'_>]) -> Result<WordModel, TextError> {
    let Vocabulary::Scores(mut scores) = model.vocab else {
        return Err(unsupported("model", "Unigram without scores"));
    };
    for ((token, _), entry) in scores.iter_mut().zip(entries) {
        if entry.control {
            *token = format!("{UNSPELLABLE}{}", entry.id);
        }
    }
    let unknown = model.unk_id.and_then(|id| usize::try_from(id).ok());
    let mut model = Unigram::from(scores, unknown, model.byte_fallback).map_err(|error| {
        TextError::Tokenizer {
            message: error.to_string(),
        }
    })?;
    model.resize_cache(0);
    Ok(WordModel::Unigram(Box::new(model)))
}
