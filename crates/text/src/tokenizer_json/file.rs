//! What `tokenizer.json` and `tokenizer_config.json` look like.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::tokenizer::split_merge;

#[derive(Deserialize)]
pub(super) struct File {
    #[serde(default)]
    pub(super) added_tokens: Vec<AddedToken>,
    #[serde(default)]
    pub(super) normalizer: Value,
    #[serde(default)]
    pub(super) pre_tokenizer: Value,
    #[serde(default)]
    pub(super) post_processor: Value,
    #[serde(default)]
    pub(super) decoder: Value,
    pub(super) model: ModelFile,
}

#[derive(Deserialize)]
pub(super) struct AddedToken {
    pub(super) id: u32,
    pub(super) content: String,
    #[serde(default)]
    pub(super) special: bool,
    #[serde(default)]
    pub(super) single_word: bool,
    #[serde(default)]
    pub(super) lstrip: bool,
    #[serde(default)]
    pub(super) rstrip: bool,
}

#[derive(Deserialize)]
pub(super) struct ModelFile {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) vocab: Vocabulary,
    #[serde(default)]
    pub(super) merges: Vec<Merge>,
    pub(super) unk_token: Option<String>,
    pub(super) unk_id: Option<u32>,
    pub(super) continuing_subword_prefix: Option<String>,
    pub(super) end_of_word_suffix: Option<String>,
    #[serde(default)]
    pub(super) byte_fallback: bool,
    #[serde(default)]
    pub(super) fuse_unk: bool,
    #[serde(default)]
    pub(super) ignore_merges: bool,
}

/// Tokens with their ids, or in the order of ids with their scores.
pub(super) enum Vocabulary {
    Ids(Vec<(String, u32)>),
    Scores(Vec<(String, f64)>),
}

/// `"a b"`, or `["a", "b"]` where tokens may have spaces.
pub(super) enum Merge {
    Line(String),
    Pair(String, String),
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Vocabulary;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("tokens with ids, or pairs of token and score")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocabulary, A::Error> {
                let mut ids = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    ids.push(entry);
                }
                Ok(Vocabulary::Ids(ids))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vocabulary, A::Error> {
                let mut scores = Vec::new();
                while let Some(entry) = seq.next_element()? {
                    scores.push(entry);
                }
                Ok(Vocabulary::Scores(scores))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Merge;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("two tokens")
            }

            fn visit_str<E>(self, line: &str) -> Result<Merge, E> {
                Ok(Merge::Line(line.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Merge, A::Error> {
                let mut next = || {
                    seq.next_element()?
                        .ok_or_else(|| serde::de::Error::invalid_length(0, &"two tokens"))
                };
                Ok(Merge::Pair(next()?, next()?))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl Merge {
    pub(super) fn pair(&self) -> Option<(&str, &str)> {
        match self {
            Self::Line(line) => split_merge(line),
            Self::Pair(left, right) => {
                (!left.is_empty() && !right.is_empty()).then_some((left, right))
            }
        }
    }
}

/// `tokenizer_config.json`, as far as it matters here.
#[derive(Deserialize, Default)]
pub(super) struct Config {
    pub(super) bos_token: Option<Named>,
    pub(super) eos_token: Option<Named>,
    pub(super) add_bos_token: Option<bool>,
    pub(super) add_eos_token: Option<bool>,
    #[serde(default)]
    pub(super) chat_template: Value,
}

/// A token by its spelling, alone or in an object.
#[derive(Deserialize)]
#[serde(from = "Value")]
pub(super) struct Named(pub(super) Option<String>);

impl From<Value> for Named {
    fn from(value: Value) -> Self {
        let spelling = match &value {
            Value::Object(fields) => fields.get("content").unwrap_or(&Value::Null),
            other => other,
        };
        Self(spelling.as_str().map(str::to_owned))
    }
}
