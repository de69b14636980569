//! The plain description of a vocabulary, and the checks it must pass.

use crate::TextError;
use crate::error::shortened;

/// A vocabulary as a model file states it. The fields are GGUF's `tokenizer.*` metadata.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VocabularySpec {
    /// `tokenizer.ggml.model`: the kind. `gpt2` (byte-level BPE) and `llama` (SentencePiece BPE) are read; others are
    /// refused by name.
    pub model: String,
    /// `tokenizer.ggml.pre`: which pre-tokenizer; see [`PRE_TOKENIZERS`](crate::PRE_TOKENIZERS). Kind `llama` has none.
    pub pre: Option<String>,
    /// `tokenizer.ggml.tokens`: the spelling of each id. Spellings may repeat; the lowest id wins.
    pub tokens: Vec<String>,
    /// `tokenizer.ggml.token_type`, one for each token: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
    pub token_types: Vec<i32>,
    /// `tokenizer.ggml.scores`, one for each token of kind `llama`: of two pieces that can be made, the one with the higher
    /// score is made first. Kind `gpt2` does not look at them.
    pub scores: Vec<f32>,
    /// `tokenizer.ggml.merges`: two spellings with a space between, in the order of rank.
    pub merges: Vec<String>,
    /// `tokenizer.ggml.bos_token_id`: begins a sequence.
    pub bos: Option<u32>,
    /// `tokenizer.ggml.eos_token_id`: ends a sequence.
    pub eos: Option<u32>,
    /// `tokenizer.ggml.eot_token_id`: ends a turn.
    pub eot: Option<u32>,
    /// `tokenizer.ggml.eom_token_id`: ends a message that calls a tool.
    pub eom: Option<u32>,
    /// `tokenizer.ggml.unknown_token_id`.
    pub unk: Option<u32>,
    /// `tokenizer.ggml.padding_token_id`.
    pub pad: Option<u32>,
    /// `tokenizer.ggml.add_bos_token`; absent means what the pre-tokenizer's family does.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_eos_token`; reported by [`Tokenizer::adds_eos`](crate::Tokenizer::adds_eos).
    pub add_eos: Option<bool>,
    /// `tokenizer.ggml.add_space_prefix`: whether a text begins with a space of its own. For kind `llama`, absent means
    /// yes; for kind `gpt2`, `true` is refused.
    pub add_space_prefix: Option<bool>,
    /// The rows of the embedding, where they are known. There may be more rows than tokens, not fewer.
    pub embedding_rows: Option<u32>,
    /// `tokenizer.chat_template`: Jinja source.
    pub chat_template: Option<String>,
    /// `tokenizer.chat_template.tool_use`: the same for chats with tools, where a model has two.
    pub tool_use_template: Option<String>,
}

/// GGUF's token types, as far as they matter here.
pub(crate) const NORMAL: i32 = 1;
pub(crate) const UNKNOWN: i32 = 2;
pub(crate) const CONTROL: i32 = 3;
pub(crate) const USER_DEFINED: i32 = 4;
pub(crate) const UNUSED: i32 = 5;
pub(crate) const BYTE: i32 = 6;

impl VocabularySpec {
    /// Everything that can be checked field by field; the merges are checked when they are looked up.
    pub(crate) fn validate(&self) -> Result<(), TextError> {
        if !matches!(self.model.as_str(), "gpt2" | "llama") {
            return Err(TextError::UnsupportedModel {
                model: shortened(&self.model),
            });
        }
        if self.model == "gpt2" && self.add_space_prefix == Some(true) {
            return Err(TextError::UnsupportedOption {
                field: "tokenizer.ggml.add_space_prefix",
                value: true,
            });
        }
        let tokens = self.tokens.len() as u64;
        if tokens == 0 {
            return Err(TextError::EmptyVocabulary);
        }
        if self.token_types.len() as u64 != tokens {
            return Err(TextError::ArrayLength {
                field: "tokenizer.ggml.token_type",
                found: self.token_types.len() as u64,
                expected: tokens,
            });
        }
        if self.model == "llama" && self.scores.len() as u64 != tokens {
            return Err(TextError::ArrayLength {
                field: "tokenizer.ggml.scores",
                found: self.scores.len() as u64,
                expected: tokens,
            });
        }
        for (id, value) in self.token_types.iter().enumerate() {
            if !(1..=6).contains(value) {
                return Err(TextError::TokenType {
                    id: id as u64,
                    value: *value,
                });
            }
        }
        // Without an embedding in sight, ids must still fit 32 bits.
        let rows = self.embedding_rows.map_or(u64::from(u32::MAX), u64::from);
        if tokens > rows {
            return Err(TextError::MoreTokensThanRows { tokens, rows });
        }
        for (field, id) in [
            ("tokenizer.ggml.bos_token_id", self.bos),
            ("tokenizer.ggml.eos_token_id", self.eos),
            ("tokenizer.ggml.eot_token_id", self.eot),
            ("tokenizer.ggml.eom_token_id", self.eom),
            ("tokenizer.ggml.unknown_token_id", self.unk),
            ("tokenizer.ggml.padding_token_id", self.pad),
        ] {
            if let Some(id) = id.filter(|id| u64::from(*id) >= tokens) {
                return Err(TextError::IdOutOfRange { field, id, tokens });
            }
        }
        if self.add_bos == Some(true) && self.bos.is_none() {
            return Err(TextError::MissingBos);
        }
        Ok(())
    }
}
