//! The small vocabularies.

use serde::Deserialize;

use crate::case::Case;

/// A reference file: a vocabulary (or the name of one) and cases.
#[derive(Deserialize)]
pub struct Reference {
    pub pre: String,
    pub tokens: Vec<String>,
    pub token_types: Vec<i32>,
    pub merges: Vec<String>,
    pub cases: Vec<Case>,
}

impl Reference {
    /// The small vocabulary for a pre-tokenizer.
    pub fn small(pre: &str) -> Self {
        let text = match pre {
            "gpt-2" => include_str!("../data/gpt-2.json"),
            "smollm" => include_str!("../data/smollm.json"),
            "llama-bpe" => include_str!("../data/llama-bpe.json"),
            "qwen2" => include_str!("../data/qwen2.json"),
            _ => panic!("no reference for {pre}"),
        };
        serde_json::from_str(text).unwrap()
    }

    pub fn spec(&self) -> foretoken_text::VocabularySpec {
        foretoken_text::VocabularySpec {
            model: "gpt2".into(),
            pre: Some(self.pre.clone()),
            tokens: self.tokens.clone(),
            token_types: self.token_types.clone(),
            merges: self.merges.clone(),
            ..Default::default()
        }
    }

    pub fn id(&self, token: &str) -> u32 {
        let at = self.tokens.iter().position(|known| known == token);
        u32::try_from(at.unwrap()).unwrap()
    }
}
