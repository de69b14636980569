//! [`Chooser`]: the state that choosing needs for one sequence.

use std::collections::HashMap;

use super::noise::{NoiseKey, gumbel};
use super::process::{MASKED, Seen, process};
use super::{narrow::narrow, params::Sampling};
use crate::{Chosen, Position, TokenId};

/// Chooses the tokens of one sequence on the host, in plain f32: the oracle of the kernels.
#[derive(Debug, Clone)]
pub struct Chooser {
    sampling: Sampling,
    seen: HashMap<TokenId, Seen>,
    /// Position of the first output token.
    prompt_len: Position,
}

impl Default for Chooser {
    fn default() -> Self {
        Self::new(Sampling::greedy(), &[])
    }
}

impl Chooser {
    /// Starts a sequence whose prompt is `prompt`: its output begins at position `prompt.len()`.
    pub fn new(sampling: Sampling, prompt: &[TokenId]) -> Self {
        let mut seen: HashMap<TokenId, Seen> = HashMap::new();
        if sampling.penalizes() {
            for token in prompt {
                seen.entry(*token).or_default().in_prompt = true;
            }
        }
        let prompt_len = Position::try_from(prompt.len()).expect("a prompt fits a context");
        Self {
            sampling,
            seen,
            prompt_len,
        }
    }

    /// The same history under other parameters.
    pub fn with_sampling(&self, sampling: Sampling) -> Self {
        Self {
            sampling,
            ..self.clone()
        }
    }

    /// Its parameters.
    pub fn sampling(&self) -> &Sampling {
        &self.sampling
    }

    /// Counts a committed output token.
    pub fn commit(&mut self, token: TokenId) {
        if self.sampling.penalizes() {
            self.seen.entry(token).or_default().in_output += 1;
        }
    }

    /// The processed and narrowed logits of the token that follows `position`; ruled-out tokens are [`MASKED`].
    /// `drafts`: the tokens of this pass that stand after the last committed one, up to `position`.
    pub fn processed(&self, logits: &[f32], position: Position, drafts: &[TokenId]) -> Vec<f32> {
        let mut row = logits.to_vec();
        let output_index = (position + 1).saturating_sub(self.prompt_len);
        process(&mut row, &self.sampling, &self.seen, drafts, output_index);
        narrow(&mut row, &self.sampling, MASKED);
        row
    }

    /// Chooses a draft model's token that follows `position`, as [`crate::Ops::draft`] does: of `vocab` tokens of the target, or of a
    /// vocabulary that is only `mapped` to it.
    pub fn choose_draft(
        &self,
        logits: &[f32],
        position: Position,
        vocab: TokenId,
        mapped: bool,
    ) -> Chosen {
        if mapped {
            return Self::default().choose(logits, position, &[]);
        }
        if logits.len() == vocab as usize {
            return self.choose(logits, position, &[]);
        }
        let sampling = self.sampling.without_token_rules();
        Self::new(sampling, &[]).choose(logits, position, &[])
    }

    /// Chooses the token that follows `position`.
    pub fn choose(&self, logits: &[f32], position: Position, drafts: &[TokenId]) -> Chosen {
        // By exponent bits, as the kernels must: they may assume that NaN does not occur.
        if logits
            .iter()
            .any(|v| v.to_bits() & 0x7f80_0000 == 0x7f80_0000)
        {
            return Chosen::NonFinite;
        }
        let row = self.processed(logits, position, drafts);
        let key = NoiseKey::new(self.sampling.seed, self.sampling.choice, position + 1);
        let greedy = self.sampling.is_greedy();
        let mut best = (f32::MIN, 0);
        for (token, logit) in (0..).zip(row) {
            let score = if greedy || logit == MASKED {
                logit
            } else {
                logit + gumbel(key.hash(token))
            };
            if score > best.0 {
                best = (score, token);
            }
        }
        Chosen::Token(best.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greedy(logits: &[f32]) -> Chosen {
        Chooser::default().choose(logits, 0, &[])
    }

    #[test]
    fn the_largest_and_the_lowest_id_of_several() {
        assert_eq!(greedy(&[-3.0, -1.0, -2.0]), Chosen::Token(1));
        assert_eq!(greedy(&[1.0, 5.0, 2.0, 5.0]), Chosen::Token(1));
        assert_eq!(greedy(&[0.0, -0.0]), Chosen::Token(0));
        assert_eq!(greedy(&[-0.0, 0.0]), Chosen::Token(0));
        assert_eq!(greedy(&[f32::MIN, f32::MAX]), Chosen::Token(1));
    }

    #[test]
    fn one_value_that_is_not_finite_spoils_the_row() {
        for value in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for at in 0..3 {
                let mut logits = [1.0, 2.0, 3.0];
                logits[at] = value;
                assert_eq!(greedy(&logits), Chosen::NonFinite, "{value} at {at}");
            }
        }
    }

    #[test]
    fn a_minimum_of_tokens_masks_stop_tokens_by_position() {
        let sampling = Sampling {
            min_tokens: 2,
            stop_ids: vec![1],
            ..Sampling::greedy()
        };
        let chooser = Chooser::new(sampling, &[5, 6, 7]);
        // Position 2 is the prompt's last: output tokens 0 and 1 follow positions 2 and 3.
        let chosen: Vec<Chosen> = (2..6)
            .map(|p| chooser.choose(&[1.0, 9.0], p, &[]))
            .collect();
        assert_eq!(chosen, [0, 0, 1, 1].map(Chosen::Token));
    }

    #[test]
    fn penalties_count_committed_tokens_and_drafts_of_the_block() {
        let sampling = Sampling {
            repetition_penalty: 2.0,
            frequency_penalty: 0.5,
            presence_penalty: 0.25,
            ..Sampling::greedy()
        };
        let mut chooser = Chooser::new(sampling, &[0]);
        chooser.commit(1);
        let row = chooser.processed(&[4.0, 4.0, -4.0, 4.0], 1, &[2, 1]);
        // 0: prompt only; 1: twice in the output; 2: once, negative; 3: never.
        assert_eq!(row, [2.0, 2.0 - 1.0 - 0.25, -8.0 - 0.5 - 0.25, 4.0]);
    }
}
