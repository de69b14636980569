//! Drafting with a model, step by step on the device: what the device is told, what it tells, and [`HostDraft`], which is the
//! definition of it.

use crate::sampling::token_logprobs;
use crate::{Chooser, Chosen, Position, Row, SequenceSlot, TokenId};

/// What a draft continues, and how far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DraftStart {
    /// The target's last committed token: the verify pass's first row.
    pub token: TokenId,
    /// Where it stands in the target's sequence.
    pub position: Position,
    /// Whose KV cache the verify pass uses.
    pub sequence: SequenceSlot,
    /// ln of the least probability, by the draft model itself, that all tokens of the draft are right: the first token below it is
    /// the draft's last. Heeded by choices that stop early.
    pub log_confidence: f32,
}

/// How one choice of the draft model joins the draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftChoice {
    /// Choices before it in this draft; 0 begins a new one.
    pub index: u32,
    /// Whether the verify pass comes next. Otherwise another pass of the draft model does.
    pub last: bool,
    /// Whether [`DraftStart::log_confidence`] is heeded.
    pub stops_early: bool,
    /// The target's vocabulary: ids from here on are not proposed.
    pub vocab: TokenId,
}

/// What came of a pass that verified a draft made on the device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Drafted {
    /// The drafts that were verified.
    pub drafts: Vec<TokenId>,
    /// ln of the draft model's probability that each draft and all before it are right; 0 where choices do not stop early.
    pub log_confidences: Vec<f32>,
    /// What the target chose: one more than there are drafts.
    pub chosen: Vec<Chosen>,
}

/// The largest id: what has no counterpart in the target's vocabulary.
pub const NO_COUNTERPART: TokenId = TokenId::MAX;

/// What [`crate::Ops::draft`] does, on the host: the oracle of its kernel, and its implementation where ops compute when they are
/// recorded.
#[derive(Debug, Clone, Default)]
pub struct HostDraft {
    start: Option<DraftStart>,
    drafts: Vec<TokenId>,
    log_confidences: Vec<f32>,
    drafting: bool,
    rows: Vec<Row>,
}

impl HostDraft {
    /// See [`crate::Ops::start_draft`].
    pub fn start(&mut self, start: DraftStart) {
        self.start = Some(start);
    }

    /// Chooses by `chooser` after `row`, whose `logits` are the draft model's, and takes that in as [`HostDraft::advance`] does.
    ///
    /// # Panics
    /// If no draft was started.
    pub fn choose(
        &mut self,
        chooser: &Chooser,
        row: Row,
        logits: &[f32],
        choice: &DraftChoice,
        to_target: Option<&[TokenId]>,
    ) {
        let chosen = chooser.choose_draft(logits, row.position, choice.vocab, to_target.is_some());
        let log_probability = match chosen {
            Chosen::Token(token) => token_logprobs(logits, token, 0).chosen,
            Chosen::NonFinite => 0.0,
        };
        self.advance(row, chosen, log_probability, choice, to_target);
    }

    /// Takes in what the draft model chose after `row`, with ln of its probability, and makes the rows of the next pass. `to_target`:
    /// the target's id of each of the draft model's; absent: ids are the same.
    ///
    /// # Panics
    /// If no draft was started.
    pub fn advance(
        &mut self,
        row: Row,
        chosen: Chosen,
        log_probability: f32,
        choice: &DraftChoice,
        to_target: Option<&[TokenId]>,
    ) {
        let start = self.start.expect("start_draft comes first");
        if choice.index == 0 {
            self.drafts.clear();
            self.log_confidences.clear();
            self.drafting = true;
        }
        let mut next = row;
        if self.drafting {
            let token = match chosen {
                Chosen::Token(token) => token,
                Chosen::NonFinite => NO_COUNTERPART,
            };
            let counterpart = match to_target {
                Some(ids) => ids.get(token as usize).copied().unwrap_or(NO_COUNTERPART),
                None => token,
            };
            let mut confidence = self.log_confidences.last().copied().unwrap_or(0.0);
            if choice.stops_early {
                confidence += log_probability;
            }
            let proposed = counterpart < choice.vocab;
            if proposed {
                self.drafts.push(counterpart);
                self.log_confidences.push(confidence);
            }
            self.drafting = proposed && (!choice.stops_early || confidence >= start.log_confidence);
            if self.drafting {
                next = Row {
                    token,
                    position: row.position + 1,
                    sequence: row.sequence,
                };
            }
        }
        self.rows = match choice.last {
            false => vec![next],
            true => [start.token]
                .iter()
                .chain(&self.drafts)
                .zip(start.position..)
                .map(|(&token, position)| Row {
                    token,
                    position,
                    sequence: start.sequence,
                })
                .collect(),
        };
    }

    /// The rows of the next pass. Where the draft has ended, a pass of the draft model is the last one once more, which changes
    /// nothing; a device may leave it out.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The drafts that the verify pass has.
    pub fn drafts(&self) -> &[TokenId] {
        &self.drafts
    }

    /// What comes of them: `chosen` is what the target chose.
    pub fn drafted(&self, chosen: &[Chosen]) -> Drafted {
        Drafted {
            drafts: self.drafts.clone(),
            log_confidences: self.log_confidences.clone(),
            chosen: chosen.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: DraftStart = DraftStart {
        token: 7,
        position: 4,
        sequence: 0,
        log_confidence: -1.0,
    };

    fn row(token: TokenId, position: Position) -> Row {
        Row {
            token,
            position,
            sequence: 0,
        }
    }

    fn choice(index: u32, last: bool) -> DraftChoice {
        DraftChoice {
            index,
            last,
            stops_early: true,
            vocab: 100,
        }
    }

    fn started() -> HostDraft {
        let mut draft = HostDraft::default();
        draft.start(START);
        draft
    }

    #[test]
    fn choices_follow_one_another_and_then_are_verified() {
        let mut draft = started();
        draft.advance(row(7, 4), Chosen::Token(8), -0.25, &choice(0, false), None);
        assert_eq!(draft.rows(), [row(8, 5)]);
        draft.advance(row(8, 5), Chosen::Token(9), -0.25, &choice(1, true), None);
        assert_eq!(draft.rows(), [row(7, 4), row(8, 5), row(9, 6)]);
        // The next draft begins anew.
        draft.advance(row(7, 4), Chosen::Token(1), -0.5, &choice(0, true), None);
        assert_eq!(draft.rows(), [row(7, 4), row(1, 5)]);
    }

    #[test]
    fn what_is_not_likely_enough_is_the_last_of_the_draft() {
        let mut draft = started();
        draft.advance(row(7, 4), Chosen::Token(8), -0.75, &choice(0, false), None);
        draft.advance(row(8, 5), Chosen::Token(9), -0.5, &choice(1, false), None);
        assert_eq!(draft.rows(), [row(8, 5)], "the same pass once more");
        draft.advance(row(8, 5), Chosen::Token(9), 0.0, &choice(2, true), None);
        assert_eq!(draft.rows(), [row(7, 4), row(8, 5), row(9, 6)]);
        assert_eq!(draft.drafted(&[]).log_confidences, [-0.75, -1.25]);
        // Exactly as likely as it must be, and with nobody asking.
        draft.advance(row(7, 4), Chosen::Token(8), -1.0, &choice(0, false), None);
        assert_eq!(draft.rows(), [row(8, 5)]);
        let unasked = DraftChoice {
            stops_early: false,
            ..choice(0, false)
        };
        draft.advance(row(7, 4), Chosen::Token(8), -9.0, &unasked, None);
        assert_eq!(draft.rows(), [row(8, 5)]);
    }

    #[test]
    fn what_the_target_does_not_have_ends_the_draft() {
        for chosen in [
            Chosen::NonFinite,
            Chosen::Token(100),
            Chosen::Token(TokenId::MAX),
        ] {
            let mut draft = started();
            draft.advance(row(7, 4), chosen, 0.0, &choice(0, true), None);
            assert_eq!(draft.rows(), [row(7, 4)], "{chosen:?}");
        }
        let ids = [50, NO_COUNTERPART];
        for (token, drafts) in [(0, &[50][..]), (1, &[]), (2, &[])] {
            let mut draft = started();
            let chosen = Chosen::Token(token);
            draft.advance(row(3, 2), chosen, 0.0, &choice(0, true), Some(&ids));
            assert_eq!(draft.drafts(), drafts, "{token}");
        }
        // The draft model goes on with its own id at its own position.
        let mut draft = started();
        let chosen = Chosen::Token(0);
        draft.advance(row(3, 2), chosen, 0.0, &choice(0, false), Some(&ids));
        assert_eq!(draft.rows(), [row(0, 3)]);
    }
}
