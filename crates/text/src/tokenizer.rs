//! Text to token ids and back.

use std::borrow::Cow;
use std::sync::Arc;

use foretoken_core::TokenId;
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::normalizers::unicode::NFC;
use tokenizers::{AddedToken, DecoderWrapper, PostProcessorWrapper, TokenizerImpl};

use crate::bytes::{ByteLetters, TokenBytes};
use crate::chat_template::{ChatTemplate, Rendered, Segment};
use crate::control_tokens::{ControlTokens, Span};
use crate::error::shortened;
use crate::pre_tokenizer::{Family, WordSplit};
use crate::vocabulary::{CONTROL, UNKNOWN, USER_DEFINED};
use crate::{Detokenizer, TextError, VocabularySpec};

/// Spellings that end an answer or a turn. A token spelled so is a control token whatever type the file gives it.
const END_MARKERS: [&str; 12] = [
    "<|endoftext|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|eot|>",
    "<|endofturn|>",
    "<end_of_turn>",
    "<EOT>",
    "<eos>",
    "</s>",
];

/// Long text goes through the pipeline in pieces of about this many bytes, which bounds its memory (some 60
/// bytes for each byte of text).
const PIECE_BYTES: usize = 1 << 15;

/// A byte-level BPE vocabulary with its pre-tokenizer, control tokens and chat template.
pub struct Tokenizer {
    /// Ordinary text to ids. Its vocabulary has no control tokens, so none can come out.
    words: TokenizerImpl<BPE, NFC, WordSplit, PostProcessorWrapper, DecoderWrapper>,
    control: ControlTokens,
    bytes: Arc<TokenBytes>,
    vocabulary: u32,
    bos: Option<TokenId>,
    adds_bos: bool,
    adds_eos: bool,
    end_of_generation: Vec<TokenId>,
    /// Whether text may be cut before a space; false if a user-defined token spans such a place.
    cuts_at_spaces: bool,
    chat_template: Result<ChatTemplate, TextError>,
}

impl Tokenizer {
    /// Checks the vocabulary and builds the tokenizer.
    ///
    /// A chat template that is absent or cannot be parsed is no error here: it is one when
    /// [`Tokenizer::chat_template`] is asked for, so that raw completion still works.
    pub fn new(spec: VocabularySpec) -> Result<Self, TextError> {
        spec.validate()?;
        let family = Family::named(spec.pre.as_deref())?;
        let vocabulary = u32::try_from(spec.tokens.len()).unwrap_or(u32::MAX);

        let is_control: Vec<bool> = spec
            .tokens
            .iter()
            .zip(&spec.token_types)
            .map(|(token, kind)| {
                matches!(*kind, UNKNOWN | CONTROL) || END_MARKERS.contains(&token.as_str())
            })
            .collect();
        let entries = || {
            spec.tokens
                .iter()
                .zip(&spec.token_types)
                .zip(&is_control)
                .zip(0_u32..)
                .map(|(((token, kind), control), id)| (token, *kind, *control, id))
        };

        let control = ControlTokens::new(
            entries()
                .filter(|(_, _, control, _)| *control)
                .map(|(token, _, _, id)| (token.as_str(), id)),
        )?;

        let letters = ByteLetters::new();
        let mut bytes = TokenBytes::with_capacity(spec.tokens.len());
        for (token, kind, control, _) in entries() {
            bytes.push(&match (control, kind) {
                (true, _) => Cow::Borrowed(&[][..]),
                (_, USER_DEFINED) => Cow::Borrowed(token.as_bytes()),
                _ => letters
                    .spell(token)
                    .map_or(Cow::Borrowed(token.as_bytes()), Cow::Owned),
            });
        }

        let mut end_of_generation: Vec<TokenId> = Vec::new();
        let marked = entries()
            .filter(|(token, _, control, _)| *control && END_MARKERS.contains(&token.as_str()))
            .map(|(_, _, _, id)| id);
        for id in [spec.eos, spec.eot, spec.eom]
            .into_iter()
            .flatten()
            .chain(marked)
        {
            if !end_of_generation.contains(&id) {
                end_of_generation.push(id);
            }
        }

        let mut ordinary = Vocab::with_capacity(spec.tokens.len());
        for (token, _, control, id) in entries() {
            if !control {
                // The first, so the lowest, id keeps the spelling.
                ordinary.entry(token.clone()).or_insert(id);
            }
        }
        let user_defined: Vec<AddedToken> = entries()
            .filter(|(token, kind, control, _)| {
                *kind == USER_DEFINED && !control && !token.is_empty()
            })
            .map(|(token, ..)| AddedToken::from(token.clone(), false))
            .collect();
        let cuts_at_spaces = !user_defined.iter().any(|token| {
            token
                .content
                .char_indices()
                .any(|(at, letter)| at > 0 && letter == ' ')
        });

        let merges = merges(&spec.merges, &ordinary, &control)?;
        let model = BPE::builder()
            .vocab_and_merges(ordinary, merges)
            .ignore_merges(family.ignore_merges)
            // The library's cache is per thread and outlives the tokenizer; an engine that loads one
            // model after another would keep them all.
            .cache_capacity(0)
            .build()
            .map_err(library)?;
        let mut words = TokenizerImpl::new(model);
        words
            .with_normalizer(family.nfc.then_some(NFC))
            .map_err(library)?;
        words.with_pre_tokenizer(Some(family.words));
        words.add_tokens(user_defined).map_err(library)?;

        let chat_template = match spec.chat_template {
            None => Err(TextError::NoChatTemplate),
            Some(source) => {
                let spelling = |id: Option<u32>| {
                    id.and_then(|id| usize::try_from(id).ok())
                        .and_then(|id| spec.tokens.get(id))
                        .map_or("", String::as_str)
                };
                ChatTemplate::new(source, spelling(spec.bos), spelling(spec.eos), &control)
            }
        };

        Ok(Self {
            words,
            control,
            bytes: Arc::new(bytes),
            vocabulary,
            bos: spec.bos,
            adds_bos: spec.bos.is_some() && spec.add_bos.unwrap_or(family.adds_bos),
            adds_eos: spec.add_eos.unwrap_or(false),
            end_of_generation,
            cuts_at_spaces,
            chat_template,
        })
    }

    /// The number of tokens; every id that comes out is below it.
    pub fn vocabulary(&self) -> u32 {
        self.vocabulary
    }

    /// The token that begins a sequence, if the file names one.
    pub fn bos(&self) -> Option<TokenId> {
        self.bos
    }

    /// Whether a prompt of this model begins with BOS.
    pub fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    /// Whether the file asks for EOS after a text. Prompts are there to be continued, so nothing here adds it.
    pub fn adds_eos(&self) -> bool {
        self.adds_eos
    }

    /// The ids that end an answer: EOS, EOT, EOM and the control tokens with a known end-marker's spelling.
    pub fn end_of_generation(&self) -> &[TokenId] {
        &self.end_of_generation
    }

    /// The chat template, or why there is none that can be used.
    pub fn chat_template(&self) -> Result<&ChatTemplate, TextError> {
        self.chat_template.as_ref().map_err(Clone::clone)
    }

    /// Text to ids, without BOS.
    ///
    /// `allow_special: false` is for text from users: no control token comes out, whatever it
    /// says. With `true` the spellings of control tokens become control tokens.
    ///
    /// A byte that the vocabulary has no token for is left out, as the reference implementation does (the
    /// SmolLM2 vocabulary lacks a few control characters and the bytes 0xF1 and 0xF2).
    pub fn encode(&self, text: &str, allow_special: bool) -> Result<Vec<TokenId>, TextError> {
        let mut ids = Vec::new();
        if !allow_special {
            self.encode_ordinary(text, PIECE_BYTES, &mut ids)?;
            return Ok(ids);
        }
        for span in self.control.spans(text) {
            match span {
                Span::Ordinary(text) => self.encode_ordinary(text, PIECE_BYTES, &mut ids)?,
                Span::Control(id) => ids.push(id),
            }
        }
        Ok(ids)
    }

    /// A prompt for raw completion: [`Tokenizer::encode`], and with `add_bos` (see
    /// [`Tokenizer::adds_bos`]) exactly one BOS in front, even if the text already spells one.
    pub fn encode_prompt(
        &self,
        text: &str,
        allow_special: bool,
        add_bos: bool,
    ) -> Result<Vec<TokenId>, TextError> {
        let ids = self.encode(text, allow_special)?;
        Ok(self.with_bos(ids, add_bos))
    }

    /// A rendered chat: control tokens where the template wrote them, ordinary ids everywhere
    /// else; exactly one BOS in front where the model wants one, even if the template wrote it too.
    pub fn encode_rendered(&self, rendered: &Rendered) -> Result<Vec<TokenId>, TextError> {
        let mut ids = Vec::new();
        for segment in rendered.segments() {
            match segment {
                Segment::Text(text) => self.encode_ordinary(text, PIECE_BYTES, &mut ids)?,
                Segment::Control(id) => ids.push(*id),
            }
        }
        Ok(self.with_bos(ids, self.adds_bos))
    }

    /// Ids to text at once. Control tokens and ids beyond the vocabulary have no text; bytes that are no
    /// character become U+FFFD.
    pub fn decode(&self, ids: &[TokenId]) -> String {
        let bytes: Vec<u8> = ids
            .iter()
            .filter_map(|id| self.bytes.get(*id))
            .flatten()
            .copied()
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// What one token stands for, in bytes: its text, or the spelling of a control token, which has none. Empty for
    /// an id beyond the vocabulary.
    pub fn token_bytes(&self, id: TokenId) -> &[u8] {
        match self.bytes.get(id) {
            Some(bytes) if !bytes.is_empty() => bytes,
            _ => self.control.spelling(id).unwrap_or_default().as_bytes(),
        }
    }

    /// A new detokenizer for one answer.
    pub fn detokenizer(&self) -> Detokenizer {
        Detokenizer::new(Arc::clone(&self.bytes))
    }

    fn with_bos(&self, ids: Vec<TokenId>, add_bos: bool) -> Vec<TokenId> {
        let Some(bos) = self.bos.filter(|_| add_bos) else {
            return ids;
        };
        let rest = ids.into_iter().skip_while(|id| *id == bos);
        std::iter::once(bos).chain(rest).collect()
    }

    /// Appends the ids of text in which nothing is special, in pieces of `piece_bytes` or a little more.
    fn encode_ordinary(
        &self,
        text: &str,
        piece_bytes: usize,
        ids: &mut Vec<TokenId>,
    ) -> Result<(), TextError> {
        let mut rest = text;
        while !rest.is_empty() {
            let cut = if self.cuts_at_spaces {
                cut_before_space(rest, piece_bytes)
            } else {
                rest.len()
            };
            let (piece, after) = rest.split_at(cut);
            let encoding = self.words.encode_fast(piece, false).map_err(library)?;
            ids.extend_from_slice(encoding.get_ids());
            rest = after;
        }
        Ok(())
    }
}

/// The first place at or after `from` where a space follows something that is not white space; the end if there is none.
///
/// All pre-tokenizers begin a new word there and none looks behind it, and the white space before it
/// has its word already; so both sides cut alone as they would together. No composition
/// crosses it either: the space is a starter that composes with nothing before it.
fn cut_before_space(text: &str, from: usize) -> usize {
    text.bytes()
        .enumerate()
        .skip(from.max(1))
        .filter(|(_, byte)| *byte == b' ')
        .map(|(at, _)| at)
        .find(|at| {
            text[..*at]
                .chars()
                .next_back()
                .is_some_and(|before| !before.is_whitespace())
        })
        .unwrap_or(text.len())
}

/// The merges as pairs, each known to be of tokens and into a token: the library does not survive others.
///
/// A merge of or into a control token is left out: it could make one from text.
fn merges(
    lines: &[String],
    ordinary: &Vocab,
    control: &ControlTokens,
) -> Result<Merges, TextError> {
    let spelled: std::collections::HashSet<&str> = control.spellings().collect();
    let mut merges = Merges::with_capacity(lines.len());
    let mut merged = String::new();
    for (index, line) in lines.iter().enumerate() {
        let index = index as u64;
        let (left, right) = line
            .split_once(' ')
            .filter(|(left, right)| !left.is_empty() && !right.is_empty() && !right.contains(' '))
            .ok_or_else(|| TextError::MalformedMerge {
                index,
                merge: shortened(line),
            })?;
        merged.clear();
        merged.push_str(left);
        merged.push_str(right);
        let mut touches_control = false;
        for token in [left, right, &merged] {
            if ordinary.contains_key(token) {
                continue;
            }
            if !spelled.contains(token) {
                return Err(TextError::MergeOutOfVocabulary {
                    index,
                    token: shortened(token),
                });
            }
            touches_control = true;
        }
        if !touches_control {
            merges.push((left.to_string(), right.to_string()));
        }
    }
    Ok(merges)
}

fn library(error: tokenizers::Error) -> TextError {
    TextError::Tokenizer {
        message: error.to_string(),
    }
}
