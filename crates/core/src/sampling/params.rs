//! How one sequence's tokens are chosen.

use crate::TokenId;

/// Sampling parameters of one sequence. The engine validates their ranges; here they are taken as they are.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// 0: greedy. Otherwise logits are divided by it.
    pub temperature: f32,
    /// Keep the k largest logits; 0: all.
    pub top_k: u32,
    /// Keep the most probable tokens until their mass reaches this; 1: all.
    pub top_p: f32,
    /// Keep tokens at least this probable relative to the most probable one; 0: all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens seen in prompt or output; 1: off.
    pub repetition_penalty: f32,
    /// Subtracted once per occurrence in the output.
    pub frequency_penalty: f32,
    /// Subtracted once if the token occurs in the output.
    pub presence_penalty: f32,
    /// Seed of the noise.
    pub seed: u64,
    /// Index of the choice where a request asks for several.
    pub choice: u32,
    /// Output tokens before which `stop_ids` are masked.
    pub min_tokens: u32,
    /// Tokens that end an answer.
    pub stop_ids: Vec<TokenId>,
    /// Added to logits. Every id is below the vocabulary.
    pub logit_bias: Vec<(TokenId, f32)>,
}

impl Sampling {
    /// The largest logit, nothing else.
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            seed: 0,
            choice: 0,
            min_tokens: 0,
            stop_ids: Vec::new(),
            logit_bias: Vec::new(),
        }
    }

    /// Temperatures below this are greedy: dividing by less would overflow f32, and the limit of the distribution
    /// is the argmax.
    pub const GREEDY_BELOW: f32 = 1e-5;

    /// Whether the noise is dropped.
    pub fn is_greedy(&self) -> bool {
        self.temperature < Self::GREEDY_BELOW
    }

    /// Whether some token may be ruled out by top-k, top-p or min-p.
    pub fn narrows(&self) -> bool {
        !self.is_greedy() && (self.top_k > 0 || self.top_p < 1.0 || self.min_p > 0.0)
    }

    /// Whether logits depend on which tokens came before.
    pub fn penalizes(&self) -> bool {
        self.repetition_penalty != 1.0
            || self.frequency_penalty != 0.0
            || self.presence_penalty != 0.0
    }

    /// Whether logits are changed token by token before the temperature.
    pub fn has_token_rules(&self) -> bool {
        self.penalizes()
            || !self.logit_bias.is_empty()
            || (self.min_tokens > 0 && !self.stop_ids.is_empty())
    }

    /// The same without what [`Sampling::has_token_rules`] asks about.
    pub fn without_token_rules(&self) -> Self {
        Self {
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            min_tokens: 0,
            logit_bias: Vec::new(),
            ..self.clone()
        }
    }
}
