//! Log-probabilities of the raw distribution, before any processing.

use crate::TokenId;

/// The most alternatives a token reports.
pub const MAX_TOP_LOGPROBS: usize = 20;

/// What one token's row said of it.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// ln p of the chosen token.
    pub chosen: f32,
    /// The most probable tokens, the most probable first, lower ids first among equals.
    pub top: Vec<(TokenId, f32)>,
}

/// The log-probabilities of a row of finite logits, in f64.
pub fn token_logprobs(logits: &[f32], chosen: TokenId, top: usize) -> TokenLogprobs {
    let largest = logits.iter().copied().fold(f32::MIN, f32::max);
    let sum: f64 = logits.iter().map(|v| f64::from(v - largest).exp()).sum();
    let log_sum = f64::from(largest) + sum.ln();
    let logprob = |token: TokenId| (f64::from(logits[token as usize]) - log_sum) as f32;
    let mut order: Vec<TokenId> = (0..).take(logits.len()).collect();
    order.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]));
    TokenLogprobs {
        chosen: logprob(chosen),
        top: order
            .into_iter()
            .take(top)
            .map(|token| (token, logprob(token)))
            .collect(),
    }
}
