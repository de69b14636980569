//! Text to token ids and back.

use std::borrow::Cow;
use std::sync::Arc;

use foretoken_core::TokenId;
use tokenizers::models::bpe::{BPE, Merges, Vocab};

use crate::bytes::{ByteLetters, TokenBytes, byte_alphabet};
use crate::chat_template::{ChatTemplate, Rendered, Segment};
use crate::control_tokens::{ControlTokens, Span};
use crate::error::shortened;
use crate::pipeline::{Cutter, Normalizer, Pipeline, WordModel, library};
use crate::pre_tokenizer::Family;
use crate::sentence_piece::{SentencePiece, spelled_byte, with_spaces};
use crate::spelled_tokens::TokenClass;
use crate::vocabulary::{BYTE, CONTROL, UNKNOWN, UNUSED, USER_DEFINED};
use crate::{Detokenizer, TextError, VocabularySpec};

/// Spellings that end an answer or a turn. A token spelled so is a control token whatever type the file gives it.
const END_MARKERS: [&str; 13] = [
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
    "<\u{FF5C}end\u{2581}of\u{2581}sentence\u{FF5C}>",
    STRIKE_OR_END,
];

/// The end of a sequence in many vocabularies, whose type or metadata then says so; in others a tag of HTML.
const STRIKE_OR_END: &str = "</s>";

/// Spellings that open a turn or another kind of input: control tokens too, whatever type the file gives them.
const OTHER_MARKERS: [&str; 6] = [
    "<|im_start|>",
    "<start_of_turn>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<start_of_image>",
    "<end_of_image>",
];

/// What turns ordinary text into ids. None of its tokens is a control token, so none can come out.
pub(crate) enum Encoder {
    Steps(Box<Pipeline>),
    SentencePiece(Box<SentencePiece>),
}

/// How the tokens of a vocabulary spell text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// In the letters of [`byte_alphabet`](crate::byte_alphabet).
    Letters,
    /// In characters, with U+2581 for the space and `<0x41>` for a byte.
    Pieces,
}

/// What a vocabulary needs beside its description.
pub(crate) struct Parts {
    pub(crate) spelling: Spelling,
    /// Whether a prompt begins with BOS when the file does not say.
    pub(crate) adds_bos: bool,
    /// A text begins with a space of its own, which decoding takes away.
    pub(crate) adds_space: bool,
    /// Control tokens that swallow the white space (before, after) them.
    pub(crate) trims: Vec<(TokenId, bool, bool)>,
}

/// A vocabulary with what cuts text for it, its control tokens and its chat template.
pub struct Tokenizer {
    encoder: Encoder,
    control: ControlTokens,
    /// Tokens that stand for their spelling wherever it occurs in a text.
    user_defined: ControlTokens,
    bytes: Arc<TokenBytes>,
    /// One for each token.
    classes: Vec<TokenClass>,
    vocabulary: u32,
    bos: Option<TokenId>,
    adds_bos: bool,
    adds_eos: bool,
    adds_space: bool,
    trims: Vec<(TokenId, bool, bool)>,
    end_of_generation: Vec<TokenId>,
    /// The spellings of BOS and EOS, which templates write.
    bos_and_eos: [String; 2],
    chat_template: Result<ChatTemplate, TextError>,
    tool_use_template: Option<Result<ChatTemplate, TextError>>,
}

/// What a token is, as far as reading text goes.
pub(crate) struct Entry<'a> {
    pub(crate) id: TokenId,
    pub(crate) token: &'a str,
    pub(crate) kind: i32,
    pub(crate) control: bool,
}

impl Tokenizer {
    /// Checks the vocabulary of a GGUF file and builds the tokenizer.
    ///
    /// A chat template that is absent or cannot be parsed is no error here: it is one when
    /// [`Tokenizer::chat_template`] is asked for, so that raw completion still works.
    ///
    /// # Errors
    /// A kind, pre-tokenizer or option that is not known, by its name; arrays that do not belong together; merges of or into tokens that are not
    /// there; ids beyond the vocabulary.
    pub fn new(spec: VocabularySpec) -> Result<Self, TextError> {
        spec.validate()?;
        if spec.model == "llama" {
            let adds_space = spec.add_space_prefix.unwrap_or(true);
            let parts = Parts {
                spelling: Spelling::Pieces,
                adds_bos: true,
                adds_space,
                trims: Vec::new(),
            };
            return Self::assemble(spec, parts, |spec, entries, _| {
                let tokens = entries.iter().zip(&spec.scores);
                let model = SentencePiece::new(
                    tokens.map(|(entry, score)| (entry.token, entry.kind, entry.control, *score)),
                    spec.unk,
                    adds_space,
                )?;
                Ok(Encoder::SentencePiece(Box::new(model)))
            });
        }
        let family = Family::named(spec.pre.as_deref())?;
        let parts = Parts {
            spelling: Spelling::Letters,
            adds_bos: family.adds_bos,
            adds_space: false,
            trims: Vec::new(),
        };
        Self::assemble(spec, parts, |spec, entries, control| {
            let ordinary = ordinary(entries);
            let pairs = spec.merges.iter().enumerate().map(|(index, line)| {
                split_merge(line).ok_or_else(|| TextError::MalformedMerge {
                    index: index as u64,
                    merge: shortened(line),
                })
            });
            let merges = merges(pairs, &ordinary, control)?;
            let model = BPE::builder()
                .vocab_and_merges(ordinary, merges)
                .ignore_merges(family.ignore_merges)
                // The library's cache is per thread and outlives the tokenizer; an engine that loads one
                // model after another would keep them all.
                .cache_capacity(0)
                .build()
                .map_err(library)?;
            Ok(Encoder::Steps(Box::new(Pipeline {
                normalizers: family.nfc.then_some(Normalizer::Nfc).into_iter().collect(),
                cutters: vec![
                    Cutter::Words(family.words),
                    Cutter::Letters(byte_alphabet().collect()),
                    Cutter::Words(family.letters),
                ],
                model: WordModel::Bpe(Box::new(model)),
                cuts_at_spaces: true,
            })))
        })
    }

    /// Builds a tokenizer from a description that was checked; `encoder` makes what reads text.
    pub(crate) fn assemble(
        spec: VocabularySpec,
        parts: Parts,
        encoder: impl FnOnce(
            &VocabularySpec,
            &[Entry<'_>],
            &ControlTokens,
        ) -> Result<Encoder, TextError>,
    ) -> Result<Self, TextError> {
        let named = [spec.bos, spec.eos, spec.eot, spec.eom];
        let entries: Vec<Entry<'_>> = spec
            .tokens
            .iter()
            .zip(&spec.token_types)
            .zip(0_u32..)
            .map(|((token, kind), id)| {
                let is_named = named.contains(&Some(id));
                let marks = END_MARKERS.contains(&token.as_str())
                    && (token != STRIKE_OR_END || is_named)
                    || OTHER_MARKERS.contains(&token.as_str());
                Entry {
                    id,
                    token,
                    kind: *kind,
                    control: matches!(*kind, UNKNOWN | CONTROL)
                        || marks
                        || *kind == USER_DEFINED && is_named,
                }
            })
            .collect();

        let control = ControlTokens::new(
            entries
                .iter()
                .filter(|entry| entry.control)
                .map(|entry| (entry.token, entry.id)),
        )?;
        let is_user_defined = |entry: &&Entry<'_>| entry.kind == USER_DEFINED && !entry.control;
        let canonical = |token| match parts.spelling {
            Spelling::Letters => Cow::Borrowed(token),
            Spelling::Pieces => with_spaces(token),
        };
        let defined: Vec<(Cow<'_, str>, TokenId)> = entries
            .iter()
            .filter(is_user_defined)
            .map(|entry| (canonical(entry.token), entry.id))
            .collect();
        let user_defined = ControlTokens::new(defined.iter().map(|(token, id)| (&**token, *id)))
            .map_err(|error| match error {
                TextError::ControlTokenTooLong { id, bytes, limit } => {
                    TextError::UserDefinedTokenTooLong { id, bytes, limit }
                }
                other => other,
            })?;

        let letters = ByteLetters::new();
        let mut bytes = TokenBytes::with_capacity(entries.len());
        for entry in &entries {
            if entry.control {
                bytes.push(&[]);
                continue;
            }
            match (parts.spelling, entry.kind) {
                (Spelling::Letters, USER_DEFINED) => bytes.push(entry.token.as_bytes()),
                (Spelling::Letters, _) => match letters.spell(entry.token) {
                    Some(spelled) => bytes.push(&spelled),
                    None => bytes.push(entry.token.as_bytes()),
                },
                (Spelling::Pieces, BYTE) => match spelled_byte(entry.token) {
                    Some(byte) => bytes.push(&[byte]),
                    None => bytes.push(entry.token.as_bytes()),
                },
                (Spelling::Pieces, _) => bytes.push(with_spaces(entry.token).as_bytes()),
            }
        }

        let classes = entries
            .iter()
            .map(|entry| match (entry.kind, parts.spelling) {
                _ if entry.control => TokenClass::Control,
                (UNUSED, _) => TokenClass::Unused,
                (USER_DEFINED, _) => TokenClass::UserDefined,
                (BYTE, Spelling::Pieces) => TokenClass::Byte,
                _ => TokenClass::Ordinary,
            })
            .collect();

        let mut end_of_generation: Vec<TokenId> = Vec::new();
        let marked = entries
            .iter()
            .filter(|entry| entry.control && END_MARKERS.contains(&entry.token))
            .map(|entry| entry.id);
        for id in [spec.eos, spec.eot, spec.eom]
            .into_iter()
            .flatten()
            .chain(marked)
        {
            if !end_of_generation.contains(&id) {
                end_of_generation.push(id);
            }
        }

        let encoder = encoder(&spec, &entries, &control)?;
        let spelling = |id: Option<u32>| {
            id.and_then(|id| usize::try_from(id).ok())
                .and_then(|id| spec.tokens.get(id))
                .cloned()
                .unwrap_or_default()
        };
        let tokenizer = Self {
            encoder,
            control,
            user_defined,
            bytes: Arc::new(bytes),
            classes,
            vocabulary: u32::try_from(spec.tokens.len()).unwrap_or(u32::MAX),
            bos: spec.bos,
            adds_bos: spec.bos.is_some() && spec.add_bos.unwrap_or(parts.adds_bos),
            adds_eos: spec.add_eos.unwrap_or(false),
            adds_space: parts.adds_space,
            trims: parts.trims,
            end_of_generation,
            bos_and_eos: [spelling(spec.bos), spelling(spec.eos)],
            chat_template: Err(TextError::NoChatTemplate),
            tool_use_template: None,
        };
        let tokenizer = match spec.chat_template {
            None => tokenizer,
            Some(source) => tokenizer.with_chat_template(source),
        };
        Ok(match spec.tool_use_template {
            None => tokenizer,
            Some(source) => tokenizer.with_tool_use_template(source),
        })
    }

    /// With this chat template (Jinja source) in place of those it has; one that cannot be parsed is an error when
    /// [`Tokenizer::chat_template`] is asked for.
    #[must_use]
    pub fn with_chat_template(mut self, source: String) -> Self {
        let [bos, eos] = &self.bos_and_eos;
        self.chat_template = ChatTemplate::new(source, bos, eos, &self.control);
        self.tool_use_template = None;
        self
    }

    /// With this chat template for chats with tools.
    #[must_use]
    pub fn with_tool_use_template(mut self, source: String) -> Self {
        let [bos, eos] = &self.bos_and_eos;
        self.tool_use_template = Some(ChatTemplate::new(source, bos, eos, &self.control));
        self
    }

    /// With these ids beside those that end an answer already. Ids beyond the vocabulary are left out: nothing could come of them.
    #[must_use]
    pub fn with_end_of_generation(mut self, ids: &[TokenId]) -> Self {
        for id in ids {
            if *id < self.vocabulary && !self.end_of_generation.contains(id) {
                self.end_of_generation.push(*id);
            }
        }
        self
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

    /// The template for a chat with tools or without: a model may have one of its own for tools.
    pub fn chat_template_for(&self, tools: bool) -> Result<&ChatTemplate, TextError> {
        match &self.tool_use_template {
            Some(template) if tools => template.as_ref().map_err(Clone::clone),
            _ => self.chat_template(),
        }
    }

    /// Text to ids, without BOS.
    ///
    /// `allow_special: false` is for text from users: no control token comes out, whatever it
    /// says. With `true` the spellings of control tokens become control tokens.
    ///
    /// A byte that the vocabulary has no token for is left out, as the reference implementation does (the
    /// SmolLM2 vocabulary lacks a few control characters and the bytes 0xF1 and 0xF2).
    ///
    /// Where a text begins with a space of its own (`add_space_prefix`), so does what follows a control or user-defined token.
    pub fn encode(&self, text: &str, allow_special: bool) -> Result<Vec<TokenId>, TextError> {
        let mut ids = Vec::new();
        if !allow_special {
            self.encode_ordinary(text, true, &mut ids)?;
            return Ok(ids);
        }
        let spans = self.control.spans(text);
        let segments = spans.iter().map(|span| match span {
            Span::Ordinary(text) => (Some(*text), 0),
            Span::Control(id) => (None, *id),
        });
        self.encode_segments(segments, &mut ids)?;
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
        let segments = rendered.segments().iter().map(|segment| match segment {
            Segment::Text(text) => (Some(text.as_str()), 0),
            Segment::Control(id) => (None, *id),
        });
        self.encode_segments(segments, &mut ids)?;
        Ok(self.with_bos(ids, self.adds_bos))
    }

    /// Ids to text at once. Control tokens and ids beyond the vocabulary have no text; bytes that are no
    /// character become U+FFFD. Where texts begin with a space of their own, that one is not shown.
    pub fn decode(&self, ids: &[TokenId]) -> String {
        let bytes: Vec<u8> = ids
            .iter()
            .filter_map(|id| self.bytes.get(*id))
            .flatten()
            .copied()
            .collect();
        let shown = match bytes.strip_prefix(b" ") {
            Some(rest) if self.adds_space => rest,
            _ => &bytes,
        };
        String::from_utf8_lossy(shown).into_owned()
    }

    /// What one token stands for, in bytes: its text, or the spelling of a control token, which has none. Empty for
    /// an id beyond the vocabulary.
    pub fn token_bytes(&self, id: TokenId) -> &[u8] {
        match self.bytes.get(id) {
            Some(bytes) if !bytes.is_empty() => bytes,
            _ => self.control.spelling(id).unwrap_or_default().as_bytes(),
        }
    }

    /// Whether an id is a control token, which stands for no text.
    pub fn is_control(&self, id: TokenId) -> bool {
        let is_silent = self.bytes.get(id).is_some_and(<[u8]>::is_empty);
        is_silent && self.control.spelling(id).is_some()
    }

    /// A new detokenizer for one answer.
    ///
    /// An answer goes on where its prompt ends, so a space that begins it is shown, which [`Tokenizer::decode`] would take for the one
    /// every text begins with: joined to the prompt, the answer reads as the model meant it.
    pub fn detokenizer(&self) -> Detokenizer {
        Detokenizer::new(Arc::clone(&self.bytes))
    }

    pub(crate) fn control(&self) -> &ControlTokens {
        &self.control
    }

    pub(crate) fn all_bytes(&self) -> &Arc<TokenBytes> {
        &self.bytes
    }

    /// What each token is, in the order of ids.
    pub(crate) fn classes(&self) -> &[TokenClass] {
        &self.classes
    }

    /// Whether [`Tokenizer::encode`] begins a text with a space of its own.
    pub(crate) fn adds_space(&self) -> bool {
        self.adds_space
    }

    fn with_bos(&self, ids: Vec<TokenId>, add_bos: bool) -> Vec<TokenId> {
        let Some(bos) = self.bos.filter(|_| add_bos) else {
            return ids;
        };
        let rest = ids.into_iter().skip_while(|id| *id == bos);
        std::iter::once(bos).chain(rest).collect()
    }

    /// Appends the ids of texts and, where the text is `None`, control tokens.
    fn encode_segments<'a>(
        &self,
        segments: impl Iterator<Item = (Option<&'a str>, TokenId)>,
        ids: &mut Vec<TokenId>,
    ) -> Result<(), TextError> {
        let trims = |id| self.trims.iter().find(|(control, ..)| *control == id);
        let mut segments = segments.peekable();
        let mut first = true;
        let mut trim_start = false;
        while let Some((text, id)) = segments.next() {
            match text {
                None => {
                    ids.push(id);
                    trim_start = trims(id).is_some_and(|(_, _, after)| *after);
                }
                Some(mut text) => {
                    if trim_start {
                        text = text.trim_start();
                    }
                    if let Some((None, next)) = segments.peek()
                        && trims(*next).is_some_and(|(_, before, _)| *before)
                    {
                        text = text.trim_end();
                    }
                    self.encode_ordinary(text, first, ids)?;
                    trim_start = false;
                }
            }
            first = false;
        }
        Ok(())
    }

    /// Appends the ids of text in which nothing is special; `first`: nothing stands before it.
    fn encode_ordinary(
        &self,
        text: &str,
        mut first: bool,
        ids: &mut Vec<TokenId>,
    ) -> Result<(), TextError> {
        let text = match &self.encoder {
            Encoder::Steps(_) => Cow::Borrowed(text),
            Encoder::SentencePiece(_) => with_spaces(text),
        };
        for span in self.user_defined.spans(&text) {
            match (span, &self.encoder) {
                (Span::Control(id), _) => ids.push(id),
                (Span::Ordinary(text), Encoder::Steps(steps)) => steps.encode(text, first, ids)?,
                (Span::Ordinary(text), Encoder::SentencePiece(pieces)) => pieces.encode(text, ids),
            }
            first = false;
        }
        Ok(())
    }
}

/// The tokens that text can become, by spelling; of equal spellings the first, so the lowest, id.
pub(crate) fn ordinary(entries: &[Entry<'_>]) -> Vocab {
    let mut ordinary = Vocab::with_capacity(entries.len());
    for entry in entries.iter().filter(|entry| !entry.control) {
        ordinary.entry(entry.token.to_owned()).or_insert(entry.id);
    }
    ordinary
}

/// The two tokens of a merge that is written with one space between them.
pub(crate) fn split_merge(line: &str) -> Option<(&str, &str)> {
    line.split_once(' ')
        .filter(|(left, right)| !left.is_empty() && !right.is_empty() && !right.contains(' '))
}

/// The merges, each known to be of tokens and into a token: the library does not survive others.
///
/// A merge of or into a control token is left out: it could make one from text.
pub(crate) fn merges<'a>(
    pairs: impl ExactSizeIterator<Item = Result<(&'a str, &'a str), TextError>>,
    ordinary: &Vocab,
    control: &ControlTokens,
) -> Result<Merges, TextError> {
    let spelled: std::collections::HashSet<&str> = control.spellings().collect();
    let mut merges = Merges::with_capacity(pairs.len());
    let mut merged = String::new();
    for (index, pair) in pairs.enumerate() {
        let (left, right) = pair?;
        let index = index as u64;
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
