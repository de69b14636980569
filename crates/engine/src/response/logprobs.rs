//! Log-probabilities in OpenAI's two shapes.

use foretoken_core::TokenId;
use foretoken_core::sampling::TokenLogprobs;
use foretoken_text::Tokenizer;
use serde::{Serialize, Serializer};

/// What is reported of one token: its bytes, its log-probability in the raw distribution, and the most probable tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenReport {
    /// The token.
    pub chosen: Alternative,
    /// The most probable ones, the most probable first.
    pub top: Vec<Alternative>,
    /// Characters of the answer before the token.
    pub text_offset: usize,
}

/// A token and its log-probability.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// What it stands for; a control token's spelling.
    pub bytes: Vec<u8>,
    /// ln p.
    pub logprob: f32,
}

impl TokenReport {
    pub(crate) fn new(
        tokenizer: &Tokenizer,
        token: TokenId,
        logprobs: &TokenLogprobs,
        text_offset: usize,
    ) -> Self {
        let alternative = |token, logprob| Alternative {
            bytes: tokenizer.token_bytes(token).to_vec(),
            logprob,
        };
        Self {
            chosen: alternative(token, logprobs.chosen),
            top: logprobs
                .top
                .iter()
                .map(|&(token, logprob)| alternative(token, logprob))
                .collect(),
            text_offset,
        }
    }
}

/// `logprobs` of a chat choice.
#[derive(Debug, Clone, Serialize)]
pub struct ChatLogprobs {
    /// One entry a token.
    pub content: Vec<ChatTokenLogprob>,
    /// Always null: nothing here refuses.
    pub refusal: Option<()>,
}

/// A token of [`ChatLogprobs`].
#[derive(Debug, Clone, Serialize)]
pub struct ChatTokenLogprob {
    /// The token itself.
    #[serde(flatten)]
    pub chosen: ChatAlternative,
    /// The most probable tokens, as many as were asked for.
    pub top_logprobs: Vec<ChatAlternative>,
}

/// A token and its log-probability.
#[derive(Debug, Clone, Serialize)]
pub struct ChatAlternative {
    /// Its text; bytes that are no character become U+FFFD.
    pub token: String,
    /// ln p.
    pub logprob: f32,
    /// Its bytes: those of neighbouring tokens, put together, are the text.
    pub bytes: Vec<u8>,
}

impl ChatLogprobs {
    pub(crate) fn new(tokens: Vec<TokenReport>) -> Self {
        let alternative = |of: Alternative| ChatAlternative {
            token: String::from_utf8_lossy(&of.bytes).into_owned(),
            logprob: of.logprob,
            bytes: of.bytes,
        };
        let content = tokens.into_iter().map(|token| ChatTokenLogprob {
            chosen: alternative(token.chosen),
            top_logprobs: token.top.into_iter().map(alternative).collect(),
        });
        Self {
            content: content.collect(),
            refusal: None,
        }
    }
}

/// `logprobs` of a text choice: four lists of one entry a token.
#[derive(Debug, Clone, Serialize)]
pub struct CompletionLogprobs {
    /// Their text, or `bytes:\x…` where it is no whole character.
    pub tokens: Vec<String>,
    /// ln p.
    pub token_logprobs: Vec<f32>,
    /// The most probable tokens, as many as were asked for, and the token itself.
    pub top_logprobs: Vec<TopLogprobs>,
    /// Characters of the answer before the token.
    pub text_offset: Vec<usize>,
}

/// A JSON object from tokens to log-probabilities, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct TopLogprobs(pub Vec<(String, f32)>);

impl Serialize for TopLogprobs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(token, logprob)| (token, logprob)))
    }
}

impl CompletionLogprobs {
    pub(crate) fn new(reports: Vec<TokenReport>) -> Self {
        let mut logprobs = Self {
            tokens: Vec::new(),
            token_logprobs: Vec::new(),
            top_logprobs: Vec::new(),
            text_offset: Vec::new(),
        };
        for report in reports {
            let name = name(&report.chosen.bytes);
            // Two tokens of one text would be one key: the more probable one keeps it.
            let mut top: Vec<(String, f32)> = Vec::new();
            let chosen = std::iter::once(&report.chosen);
            for alternative in report.top.iter().chain(chosen) {
                let name = self::name(&alternative.bytes);
                if top.iter().all(|(known, _)| *known != name) {
                    top.push((name, alternative.logprob));
                }
            }
            logprobs.tokens.push(name);
            logprobs.token_logprobs.push(report.chosen.logprob);
            logprobs.top_logprobs.push(TopLogprobs(top));
            logprobs.text_offset.push(report.text_offset);
        }
        logprobs
    }
}

/// A token as a string of its own: bytes that are no text are spelled out, so that no two look alike.
fn name(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => {
            let spelled: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
            format!("bytes:{spelled}")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn alternative(bytes: &[u8], logprob: f32) -> Alternative {
        Alternative {
            bytes: bytes.to_vec(),
            logprob,
        }
    }

    #[test]
    fn both_shapes() {
        let report = TokenReport {
            chosen: alternative(b"\xe2\x82", -2.5),
            top: vec![alternative(b" a", -0.5), alternative(b"b", -1.0)],
            text_offset: 7,
        };
        let chat = ChatLogprobs::new(vec![report.clone()]);
        assert_eq!(
            serde_json::to_value(chat).unwrap(),
            json!({"content": [{
                "token": "\u{FFFD}", "logprob": -2.5, "bytes": [0xe2, 0x82],
                "top_logprobs": [
                    {"token": " a", "logprob": -0.5, "bytes": [32, 97]},
                    {"token": "b", "logprob": -1.0, "bytes": [98]},
                ],
            }], "refusal": null})
        );
        let text = CompletionLogprobs::new(vec![report]);
        assert_eq!(
            serde_json::to_value(text).unwrap(),
            json!({
                "tokens": ["bytes:\\xe2\\x82"], "token_logprobs": [-2.5],
                "top_logprobs": [{" a": -0.5, "b": -1.0, "bytes:\\xe2\\x82": -2.5}],
                "text_offset": [7],
            })
        );
    }
}
