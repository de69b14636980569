//! `choose` and `logprobs`: the definitions of `foretoken_core::sampling`, row by row.

use foretoken_core::sampling::{TokenLogprobs, choose_rows, token_logprobs};
use foretoken_core::{Chooser, Chosen, Row, TokenId};

/// Chooses for every row of `logits` (`[rows, vocab]`) and writes each sequence's last committed token.
pub(crate) fn choose(
    choosers: &mut [Chooser],
    rows: &[Row],
    logits: &[f32],
    last_token: &mut [TokenId],
) -> Vec<Chosen> {
    let (chosen, last_tokens) = choose_rows(choosers, rows, logits);
    for (sequence, token) in last_tokens {
        last_token[sequence as usize] = token;
    }
    chosen
}

/// Log-probabilities of what was chosen in every row; nothing for a row without an honest choice.
pub(crate) fn logprobs(
    chosen: &[Chosen],
    logits: &[f32],
    vocab: usize,
    top: u32,
) -> Vec<TokenLogprobs> {
    let row = |(row, chosen): (&[f32], &Chosen)| match chosen {
        Chosen::Token(token) => token_logprobs(row, *token, top as usize),
        Chosen::NonFinite => TokenLogprobs {
            chosen: 0.0,
            top: Vec::new(),
        },
    };
    logits.chunks_exact(vocab).zip(chosen).map(row).collect()
}
