//! Reading what a pass chose, and how much of it counts.

use foretoken_core::sampling::{TokenLogprobs, accepted_drafts};
use foretoken_core::{Chosen, Drafted, LanguageModel, Ops, TokenId};

use crate::DecodeError;
use crate::sequence::position;

/// The target's choices that follow from committed tokens: one for every accepted draft, and one after them.
#[derive(Debug)]
pub(crate) struct Choices {
    /// The first `accepted` equal the drafts.
    pub(crate) tokens: Vec<TokenId>,
    /// One a token, or none at all.
    pub(crate) logprobs: Vec<TokenLogprobs>,
    /// Drafts that were accepted.
    pub(crate) accepted: usize,
}

/// Waits for the pass whose logit rows were one committed token, at index `first` of its sequence, and `drafts`
/// after it.
///
/// Rows after a draft that was not accepted say nothing about the sequence, so what they chose is not looked at.
pub(crate) async fn read_choices<O: Ops>(
    ops: &mut O,
    model: &dyn LanguageModel<O>,
    first: usize,
    drafts: &[TokenId],
    logprobs: bool,
) -> Result<Choices, DecodeError> {
    let chosen = ops.read_chosen().await?;
    let vocab = model.config().vocab_size;
    let choices = accepted_choices(&chosen, drafts, first, vocab)?;
    with_logprobs(ops, choices, logprobs).await
}

/// The choices of a pass whose drafts the device made, at most `k`; it was waited for.
pub(crate) async fn choices_of_draft<O: Ops>(
    ops: &mut O,
    drafted: &Drafted,
    k: usize,
    first: usize,
    vocab: TokenId,
    logprobs: bool,
) -> Result<Choices, DecodeError> {
    if drafted.drafts.len() > k {
        return Err(DecodeError::ChosenRows {
            chosen: drafted.drafts.len() + 1,
            expected: k + 1,
        });
    }
    let choices = accepted_choices(&drafted.chosen, &drafted.drafts, first, vocab)?;
    with_logprobs(ops, choices, logprobs).await
}

fn accepted_choices(
    chosen: &[Chosen],
    drafts: &[TokenId],
    first: usize,
    vocab: TokenId,
) -> Result<Choices, DecodeError> {
    let rows = drafts.len() + 1;
    if chosen.len() != rows {
        return Err(DecodeError::ChosenRows {
            chosen: chosen.len(),
            expected: rows,
        });
    }
    let accepted = accepted_drafts(chosen, drafts);
    choices_of(&chosen[..=accepted], first, vocab)
}

async fn with_logprobs<O: Ops>(
    ops: &mut O,
    mut choices: Choices,
    wanted: bool,
) -> Result<Choices, DecodeError> {
    if wanted {
        let mut logprobs = ops.read_logprobs().await?;
        let tokens = choices.tokens.len();
        if logprobs.len() < tokens {
            return Err(DecodeError::ChosenRows {
                chosen: logprobs.len(),
                expected: tokens,
            });
        }
        logprobs.truncate(tokens);
        choices.logprobs = logprobs;
    }
    Ok(choices)
}

/// The choices of a pass that follow from committed tokens, all but the last equal to its drafts. `first`: the index of
/// the committed token that was its first row.
///
/// Where the row after accepted drafts has no honest choice, those drafts still stand: plain decoding would have come as
/// far. The next step then starts with that row, and fails as plain decoding does.
pub(crate) fn choices_of(
    chosen: &[Chosen],
    first: usize,
    vocab: TokenId,
) -> Result<Choices, DecodeError> {
    let accepted = chosen.len() - 1;
    let mut tokens = Vec::with_capacity(chosen.len());
    for (i, choice) in chosen.iter().enumerate() {
        match *choice {
            Chosen::Token(token) if token < vocab => tokens.push(token),
            _ if i > 0 => break,
            Chosen::Token(token) => {
                return Err(DecodeError::TokenOutOfVocabulary {
                    token,
                    position: first as u64 + 1,
                    vocab,
                });
            }
            Chosen::NonFinite => {
                return Err(DecodeError::NonFinite {
                    position: position(first),
                });
            }
        }
    }
    Ok(Choices {
        tokens,
        logprobs: Vec::new(),
        accepted,
    })
}
