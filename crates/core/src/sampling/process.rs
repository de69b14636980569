//! Processing of one row's logits, token by token: min_tokens, logit bias, penalties, temperature, in this order.

use std::collections::HashMap;

use crate::{Sampling, TokenId};

/// The logit of a token that must not be chosen: finite, because an implementation may assume that infinities do
/// not occur.
pub const MASKED: f32 = -3.0e38;

/// How often a token occurred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) in_prompt: bool,
    pub(crate) in_output: u32,
}

/// Processes a row in place. `output_index`: output tokens before the one to choose, drafts included.
pub(crate) fn process(
    logits: &mut [f32],
    sampling: &Sampling,
    seen: &HashMap<TokenId, Seen>,
    drafts: &[TokenId],
    output_index: u32,
) {
    for &(token, bias) in &sampling.logit_bias {
        logits[token as usize] += bias;
    }
    if sampling.penalizes() {
        let mut seen = seen.clone();
        for token in drafts {
            seen.entry(*token).or_default().in_output += 1;
        }
        for (token, seen) in seen {
            let logit = &mut logits[token as usize];
            if seen.in_prompt || seen.in_output > 0 {
                *logit = if *logit > 0.0 {
                    *logit / sampling.repetition_penalty
                } else {
                    *logit * sampling.repetition_penalty
                };
            }
            if seen.in_output > 0 {
                *logit -=
                    sampling.frequency_penalty * seen.in_output as f32 + sampling.presence_penalty;
            }
        }
    }
    if !sampling.is_greedy() {
        for logit in logits.iter_mut() {
            *logit /= sampling.temperature;
        }
    }
    // Last, so that nothing is computed with the mask's value.
    if output_index < sampling.min_tokens {
        for &token in &sampling.stop_ids {
            logits[token as usize] = MASKED;
        }
    }
}
