//! Acceptance: drafts are kept while they are what the target chose.

use super::Chooser;
use crate::{Chosen, Row, TokenId};

/// How many drafts a verified block accepts: `chosen[i]` is the target's token after row i, `drafts[i]` was row i + 1's
/// input. The first that differs is replaced by `chosen[accepted]`, the **recovered** token; after full acceptance
/// that is the **bonus** token.
pub fn accepted_drafts(chosen: &[Chosen], drafts: &[TokenId]) -> usize {
    drafts
        .iter()
        .zip(chosen)
        .take_while(|(draft, chosen)| **chosen == Chosen::Token(**draft))
        .count()
}

/// Chooses for every logit row and commits what is accepted: what [`crate::Ops::choose`] does, on the host.
/// `rows` are the pass's logit rows, those of one sequence beside one another: the first holds the sequence's last
/// committed token, the others its drafts. `choosers` are by sequence slot. Returns the choices and, for each
/// sequence of the pass, its last committed token.
pub fn choose_rows(
    choosers: &mut [Chooser],
    rows: &[Row],
    logits: &[f32],
) -> (Vec<Chosen>, Vec<(u32, TokenId)>) {
    let vocab = logits.len() / rows.len().max(1);
    let mut chosen = Vec::with_capacity(rows.len());
    let mut last_tokens = Vec::new();
    for block in rows.chunk_by(|a, b| a.sequence == b.sequence) {
        let sequence = block[0].sequence;
        let chooser = &mut choosers[sequence as usize];
        let drafts: Vec<TokenId> = block[1..].iter().map(|row| row.token).collect();
        let first = chosen.len();
        for (i, row) in block.iter().enumerate() {
            let at = (first + i) * vocab;
            chosen.push(chooser.choose(&logits[at..at + vocab], row.position, &drafts[..i]));
        }
        let accepted = accepted_drafts(&chosen[first..], &drafts);
        for choice in &chosen[first..=first + accepted] {
            if let Chosen::Token(token) = choice {
                chooser.commit(*token);
            }
        }
        let last = match chosen[first + accepted] {
            Chosen::Token(token) => token,
            Chosen::NonFinite => 0,
        };
        last_tokens.push((sequence, last));
    }
    (chosen, last_tokens)
}
