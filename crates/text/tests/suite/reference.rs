//! The small vocabularies.

use serde::Deserialize;

use crate::case::Case;

/// A reference file: a vocabulary and cases.
#[derive(Deserialize)]
pub struct Reference {
    /// The pre-tokenizer of a byte-level vocabulary.
    pub pre: Option<String>,
    pub tokens: Vec<String>,
    pub token_types: Vec<i32>,
    #[serde(default)]
    pub merges: Vec<String>,
    #[serde(default)]
    pub scores: Vec<f32>,
    pub add_space_prefix: Option<bool>,
    pub cases: Vec<Case>,
}

impl Reference {
    /// The small vocabulary for a pre-tokenizer.
    pub fn small(pre: &str) -> Self {
        let text = match pre {
            "gpt-2" => include_str!("../data/gpt-2.json"),
            "smollm" | "refact" | "starcoder" => include_str!("../data/smollm.json"),
            "llama-bpe" | "llama3" | "llama-v3" => include_str!("../data/llama-bpe.json"),
            "smaug-bpe" => include_str!("../data/smaug-bpe.json"),
            "qwen2" | "deepseek-r1-qwen" => include_str!("../data/qwen2.json"),
            "tekken" => include_str!("../data/tekken.json"),
            "falcon" => include_str!("../data/falcon.json"),
            "deepseek-coder" => include_str!("../data/deepseek-coder.json"),
            "deepseek-llm" => include_str!("../data/deepseek-llm.json"),
            "deepseek-v3" => include_str!("../data/deepseek-v3.json"),
            _ => panic!("no reference for {pre}"),
        };
        let reference: Self = serde_json::from_str(text).unwrap();
        Self {
            pre: Some(pre.to_string()),
            ..reference
        }
    }

    /// A small vocabulary of pieces: without a space of its own before a text, with user-defined tokens; or with one, without.
    pub fn pieces(add_space_prefix: bool) -> Self {
        let text = if add_space_prefix {
            include_str!("../data/spm-prefix.json")
        } else {
            include_str!("../data/spm.json")
        };
        serde_json::from_str(text).unwrap()
    }

    pub fn spec(&self) -> foretoken_text::VocabularySpec {
        foretoken_text::VocabularySpec {
            model: if self.pre.is_some() { "gpt2" } else { "llama" }.into(),
            pre: self.pre.clone(),
            tokens: self.tokens.clone(),
            token_types: self.token_types.clone(),
            merges: self.merges.clone(),
            scores: self.scores.clone(),
            add_space_prefix: self.add_space_prefix,
            ..Default::default()
        }
    }

    pub fn id(&self, token: &str) -> u32 {
        let at = self.tokens.iter().position(|known| known == token);
        u32::try_from(at.unwrap()).unwrap()
    }
}
