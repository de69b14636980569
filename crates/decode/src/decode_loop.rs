//! The loop that yields committed blocks of tokens.

use foretoken_core::{Chosen, LanguageModel, Ops, Phase, TokenId};

use crate::sequence::position;
use crate::{AbortSignal, DecodeError, FinishReason, Sequence, StopConditions, prefill};

/// What one step committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The tokens, in order; the token that ended the answer is the last one.
    pub tokens: Vec<TokenId>,
    /// Why the answer ended, if it did.
    pub finish: Option<FinishReason>,
}

/// One answer in the making. The first step runs the prompt, every further one decodes.
///
/// The loop owns the state, not the device: ops and model come with each step, so that whoever holds
/// several loops can interleave them.
#[derive(Debug)]
pub struct DecodeLoop {
    sequence: Sequence,
    prompt_len: usize,
    stop: StopConditions,
    abort: AbortSignal,
    finish: Option<FinishReason>,
}

impl DecodeLoop {
    /// Starts an answer after the committed tokens of `sequence`.
    pub fn new(sequence: Sequence, stop: StopConditions, abort: AbortSignal) -> Self {
        let prompt_len = sequence.tokens().len();
        Self {
            sequence,
            prompt_len,
            stop,
            abort,
            finish: None,
        }
    }

    /// The prompt and what was generated so far.
    pub fn sequence(&self) -> &Sequence {
        &self.sequence
    }

    /// What was generated so far, the token that ended it included.
    pub fn generated(&self) -> &[TokenId] {
        &self.sequence.tokens()[self.prompt_len..]
    }

    /// Why the answer ended, if it did.
    pub fn finish(&self) -> Option<FinishReason> {
        self.finish
    }

    /// Commits the next block. After the end of the answer: an empty block with the same reason.
    ///
    /// # Errors
    /// See [`DecodeError`]; the sequence keeps what was committed before.
    pub async fn step<O: Ops>(
        &mut self,
        ops: &mut O,
        model: &dyn LanguageModel<O>,
    ) -> Result<Block, DecodeError> {
        if self.finish.is_some() {
            return Ok(Block {
                tokens: Vec::new(),
                finish: self.finish,
            });
        }
        if self.abort.is_aborted() {
            return Err(DecodeError::Aborted);
        }
        let chosen = if self.generated().is_empty() {
            vec![prefill(ops, model, &mut self.sequence, &self.abort).await?]
        } else {
            self.decode(ops, model).await?
        };
        Ok(self.commit(&chosen))
    }

    /// One pass of the row family over the tokens that the KV cache lacks: the last one.
    async fn decode<O: Ops>(
        &mut self,
        ops: &mut O,
        model: &dyn LanguageModel<O>,
    ) -> Result<Vec<TokenId>, DecodeError> {
        let (from, to) = (self.sequence.kv_len(), self.sequence.tokens().len());
        debug_assert_eq!(
            from + 1,
            to,
            "between steps only the last token is missing in the KV cache"
        );
        let rows = self.sequence.rows(from, to);
        ops.begin(Phase::Rows, &rows, rows.len());
        let logits = model.forward(ops);
        ops.choose(logits);
        ops.submit()?;
        let chosen = read_tokens(ops, model, from, rows.len()).await?;
        self.sequence.set_kv_len(to);
        Ok(chosen)
    }

    /// Commits the target's tokens up to the first that ends the answer.
    fn commit(&mut self, chosen: &[TokenId]) -> Block {
        let (generated, total) = (self.generated().len(), self.sequence.tokens().len());
        let mut kept = chosen.len();
        for (i, &token) in chosen.iter().enumerate() {
            self.finish = self.stop.finish(token, generated + i + 1, total + i + 1);
            if self.finish.is_some() {
                kept = i + 1;
                break;
            }
        }
        let tokens = chosen[..kept].to_vec();
        self.sequence.commit(&tokens);
        Block {
            tokens,
            finish: self.finish,
        }
    }

    /// Ends the answer after its first `generated` tokens, because the text they make holds a stop
    /// string: later tokens of the block are taken back, and the reason becomes
    /// [`FinishReason::Stop`].
    pub fn stop_after(&mut self, generated: usize) {
        self.sequence.truncate(self.prompt_len + generated);
        self.finish = Some(FinishReason::Stop);
    }
}

/// Waits for the device and returns the tokens chosen for `rows` rows, the first of which stands at
/// index `first` of its sequence.
pub(crate) async fn read_tokens<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
    first: usize,
    rows: usize,
) -> Result<Vec<TokenId>, DecodeError> {
    let chosen = ops.read_chosen().await?;
    if chosen.len() != rows {
        return Err(DecodeError::ChosenRows {
            chosen: chosen.len(),
            expected: rows,
        });
    }
    let vocab = model.config().vocab_size;
    chosen
        .into_iter()
        .enumerate()
        .map(|(i, chosen)| match chosen {
            Chosen::Token(token) if token < vocab => Ok(token),
            Chosen::Token(token) => Err(DecodeError::TokenOutOfVocabulary {
                token,
                position: (first + i + 1) as u64,
                vocab,
            }),
            Chosen::NonFinite => Err(DecodeError::NonFinite {
                position: position(first + i),
            }),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commits one block of a verify pass after a prompt of four tokens.
    fn commit(chosen: &[TokenId], max_tokens: usize, context: usize) -> (DecodeLoop, Block) {
        let mut sequence = Sequence::new(0);
        sequence.commit(&[1, 2, 3, 4]);
        let stop = StopConditions {
            token_ids: vec![9],
            max_tokens,
            context,
        };
        let mut answer = DecodeLoop::new(sequence, stop, AbortSignal::new());
        let block = answer.commit(chosen);
        (answer, block)
    }

    #[test]
    fn a_block_ends_with_the_first_token_that_ends_the_answer() {
        for at in 0..4 {
            let mut chosen = [5, 6, 7, 8];
            chosen[at] = 9;
            let (answer, block) = commit(&chosen, 100, 64);
            assert_eq!(block.tokens, chosen[..=at]);
            assert_eq!(block.finish, Some(FinishReason::Stop));
            assert_eq!(answer.generated(), block.tokens);

            let (answer, block) = commit(&[5, 6, 7, 8], at + 1, 64);
            assert_eq!(
                (answer.generated().len(), block.finish),
                (at + 1, Some(FinishReason::Length))
            );
            let (answer, block) = commit(&[5, 6, 7, 8], 100, 5 + at);
            assert_eq!(
                (answer.generated().len(), block.finish),
                (at + 1, Some(FinishReason::Length))
            );
        }
        let (answer, block) = commit(&[5, 6, 7, 8], 5, 9);
        assert_eq!((answer.generated().len(), block.finish), (4, None));
    }

    #[test]
    fn a_stop_string_within_a_block_takes_the_rest_back() {
        let (mut answer, _) = commit(&[5, 6, 7, 8], 100, 64);
        answer.stop_after(2);
        assert_eq!(answer.generated(), [5, 6]);
        assert_eq!(answer.finish(), Some(FinishReason::Stop));
    }
}
