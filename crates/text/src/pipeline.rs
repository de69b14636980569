//! Text to ids by steps: normalize, cut into words, look up. Where a vocabulary is spelled in bytes' letters, that is one of the cutting
//! steps, since expressions may come after it.

use std::borrow::Cow;

use tokenizers::models::bpe::BPE;
use tokenizers::models::unigram::Unigram;
use tokenizers::{Model, NormalizedString};

use crate::TextError;
use crate::pre_tokenizer::{WordPattern, WordSplit, cut_before_space};

/// Long text goes through the steps in pieces of about this many bytes, which bounds their memory.
const PIECE_BYTES: usize = 1 << 15;

/// A text may become this many times as long before it is cut. Unicode's forms make 18 of one character at most, which has 3 bytes.
const MOST_GROWTH: usize = 16;

/// What finds the tokens of a word.
pub(crate) enum WordModel {
    Bpe(Box<BPE>),
    Unigram(Box<Unigram>),
}

/// What happens to a text before it is cut.
pub(crate) enum Normalizer {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    Lowercase,
    /// Puts this in front of a text that is not empty.
    Prepend(String),
    Replace(String, String),
    ReplaceMatches(WordPattern, String),
}

/// How a text is cut.
pub(crate) enum Cutter {
    /// Into matches and what lies between.
    Words(WordSplit),
    /// Into matches and what lies between (with `invert`, the other way round); see [`Behavior`].
    Matches {
        pattern: WordPattern,
        invert: bool,
        behavior: Behavior,
    },
    /// Spaces become this; a text begins with one by the rule; with `cut`, each begins a word.
    Metaspace {
        space: char,
        prefix: Prefix,
        cut: bool,
    },
    /// A space in front of a word that does not begin with one.
    PrefixSpace,
    /// Each byte becomes its letter.
    Letters(Vec<char>),
}

/// What becomes of matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behavior {
    Isolated,
    Removed,
    WithPrevious,
    WithNext,
    /// Matches that follow one another are one, and so is what lies between.
    Contiguous,
}

/// Where a text gets a space of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefix {
    Never,
    /// At the beginning of everything, not after a control token.
    First,
    Always,
}

/// The steps of a vocabulary.
pub(crate) struct Pipeline {
    pub(crate) normalizers: Vec<Normalizer>,
    pub(crate) cutters: Vec<Cutter>,
    pub(crate) model: WordModel,
    /// Whether text may be cut before a space that follows something else.
    pub(crate) cuts_at_spaces: bool,
}

impl Pipeline {
    /// Appends the ids of a text in which nothing is special. `first`: nothing stands before it.
    pub(crate) fn encode(
        &self,
        text: &str,
        first: bool,
        ids: &mut Vec<u32>,
    ) -> Result<(), TextError> {
        let mut rest = text;
        while !rest.is_empty() {
            let cut = if self.cuts_at_spaces {
                cut_before_space(rest, PIECE_BYTES)
            } else {
                rest.len()
            };
            let (piece, after) = rest.split_at(cut);
            self.encode_piece(piece, first, ids)?;
            rest = after;
        }
        Ok(())
    }

    fn encode_piece(&self, text: &str, first: bool, ids: &mut Vec<u32>) -> Result<(), TextError> {
        let bytes = text.len();
        let limit = bytes.saturating_mul(MOST_GROWTH).saturating_add(1024);
        let mut text = Cow::Borrowed(text);
        for normalizer in &self.normalizers {
            if let Cow::Owned(normal) = normalizer.normalize(&text) {
                text = Cow::Owned(normal);
            }
            if text.len() > limit {
                return Err(TextError::Tokenizer {
                    message: format!(
                        "normalization makes a text of {bytes} bytes longer than {limit}"
                    ),
                });
            }
        }
        self.cut(&text, 0, first, &mut |word| {
            let tokens = self.model.tokenize(word)?;
            ids.extend(tokens.iter().map(|token| token.id));
            Ok(())
        })
    }

    /// Hands each word to `take`; `step` is the first cutter that has not cut the text yet.
    fn cut(
        &self,
        text: &str,
        step: usize,
        first: bool,
        take: &mut dyn FnMut(&str) -> Result<(), TextError>,
    ) -> Result<(), TextError> {
        if text.is_empty() {
            return Ok(());
        }
        let Some(cutter) = self.cutters.get(step) else {
            return take(text);
        };
        match cutter {
            Cutter::Words(split) => {
                for (index, word) in split.words(text).into_iter().enumerate() {
                    self.cut(word, step + 1, first && index == 0, take)?;
                }
            }
            Cutter::Matches {
                pattern,
                invert,
                behavior,
            } => {
                let mut pieces = pattern.pieces(text);
                for (_, matched) in &mut pieces {
                    *matched ^= invert;
                }
                for (index, word) in behavior.words(pieces).into_iter().enumerate() {
                    self.cut(&word, step + 1, first && index == 0, take)?;
                }
            }
            Cutter::Metaspace { space, prefix, cut } => {
                let mut spaced = text.replace(' ', space.encode_utf8(&mut [0; 4]));
                let wanted = match prefix {
                    Prefix::Never => false,
                    Prefix::First => first,
                    Prefix::Always => true,
                };
                if wanted && !spaced.starts_with(*space) {
                    spaced.insert(0, *space);
                }
                if !cut {
                    return self.cut(&spaced, step + 1, first, take);
                }
                let mut from = 0;
                for (at, _) in spaced.match_indices(*space).filter(|(at, _)| *at > 0) {
                    self.cut(&spaced[from..at], step + 1, first && from == 0, take)?;
                    from = at;
                }
                self.cut(&spaced[from..], step + 1, first && from == 0, take)?;
            }
            Cutter::PrefixSpace => {
                if text.starts_with(' ') {
                    return self.cut(text, step + 1, first, take);
                }
                self.cut(&format!(" {text}"), step + 1, first, take)?;
            }
            Cutter::Letters(letters) => {
                let spelled: String = text
                    .bytes()
                    .filter_map(|byte| letters.get(usize::from(byte)))
                    .collect();
                self.cut(&spelled, step + 1, first, take)?;
            }
        }
        Ok(())
    }
}

impl Behavior {
    /// The words that matches (`true`) and what lies between become.
    fn words(self, pieces: Vec<(&str, bool)>) -> Vec<Cow<'_, str>> {
        let mut words: Vec<Cow<'_, str>> = Vec::with_capacity(pieces.len());
        let mut before: Option<bool> = None;
        for (piece, matched) in pieces {
            let joins = match self {
                Self::Removed if matched => {
                    before = Some(matched);
                    continue;
                }
                Self::Isolated | Self::Removed => false,
                Self::WithPrevious => matched && before == Some(false),
                Self::WithNext => !matched && before == Some(true),
                Self::Contiguous => before == Some(matched),
            };
            match words.last_mut() {
                Some(last) if joins => last.to_mut().push_str(piece),
                _ => words.push(Cow::Borrowed(piece)),
            }
            before = Some(matched);
        }
        words
    }
}

impl Normalizer {
    fn normalize<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if text.is_empty() {
            return Cow::Borrowed(text);
        }
        let form = |form: fn(&mut NormalizedString) -> &mut NormalizedString| {
            if text.is_ascii() {
                return Cow::Borrowed(text);
            }
            let mut normal = NormalizedString::from(text);
            form(&mut normal);
            Cow::Owned(normal.get().to_owned())
        };
        match self {
            Self::Nfc => form(NormalizedString::nfc),
            Self::Nfd => form(NormalizedString::nfd),
            Self::Nfkc => form(NormalizedString::nfkc),
            Self::Nfkd => form(NormalizedString::nfkd),
            Self::Lowercase => Cow::Owned(text.chars().flat_map(char::to_lowercase).collect()),
            Self::Prepend(prefix) => Cow::Owned(format!("{prefix}{text}")),
            Self::Replace(from, to) => Cow::Owned(text.replace(from.as_str(), to)),
            Self::ReplaceMatches(pattern, to) => Cow::Owned(
                pattern
                    .pieces(text)
                    .into_iter()
                    .map(|(piece, matched)| if matched { to.as_str() } else { piece })
                    .collect(),
            ),
        }
    }
}

impl WordModel {
    fn tokenize(&self, word: &str) -> Result<Vec<tokenizers::Token>, TextError> {
        match self {
            Self::Bpe(model) => model.tokenize(word),
            Self::Unigram(model) => model.tokenize(word),
        }
        .map_err(library)
    }
}

/// What the library says, which is not expected once a vocabulary has been checked.
pub(crate) fn library(error: tokenizers::Error) -> TextError {
    TextError::Tokenizer {
        message: error.to_string(),
    }
}
