//! Steps that follow one another without the host: what the device is told, what it tells, and [`HostSteps`], which is
//! the definition of it.

use std::collections::VecDeque;

use crate::sampling::accepted_drafts;
use crate::{Chosen, Position, Row, SequenceSlot, TokenId};

/// Which of several earlier occurrences of an n-gram is continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MatchOrder {
    /// The first in the sequence, as vLLM does.
    #[default]
    Earliest,
    /// The last one before the suffix itself: in a long text the better guess.
    Latest,
}

/// Prompt lookup: the longest suffix of `max` down to `min` tokens that also occurs earlier (it may overlap itself) is
/// followed by what followed there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NgramLookup {
    /// The fewest tokens of a match, at least 1.
    pub min: u32,
    /// The most.
    pub max: u32,
    /// Which of several matches.
    pub order: MatchOrder,
}

impl NgramLookup {
    /// Up to `most` tokens after the match, found by scanning: the definition.
    pub fn look_up(&self, tokens: &[TokenId], most: usize) -> Vec<TokenId> {
        let max = (self.max as usize).min(tokens.len().saturating_sub(1));
        for len in (self.min as usize..=max).rev() {
            let suffix = &tokens[tokens.len() - len..];
            let mut ends = (len..tokens.len()).filter(|end| &tokens[end - len..*end] == suffix);
            let end = match self.order {
                MatchOrder::Earliest => ends.next(),
                MatchOrder::Latest => ends.next_back(),
            };
            if let Some(end) = end {
                return tokens[end..].iter().copied().take(most).collect();
            }
        }
        Vec::new()
    }
}

/// Where the device ends a sequence of steps by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepLimits {
    /// Tokens of the sequence, the prompt's included, with which it ends.
    pub tokens: u32,
    /// Positions that rows may take.
    pub context: u32,
    /// Tokens it ends with. A device may heed only the first [`MAX_STEP_STOP_IDS`]: the host looks at each token too, so
    /// all that can come of it is a step for nothing.
    pub stop_ids: Vec<TokenId>,
}

/// The most steps that one wait reads ([`crate::Ops::start_steps`]).
pub const MAX_STEPS_A_WAIT: usize = 8;

/// Stop ids that a device heeds.
pub const MAX_STEP_STOP_IDS: usize = 60;

/// What came of a step that the host did not see begin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepOutcome {
    /// Drafts that were verified.
    pub drafted: usize,
    /// How many of them equal what the target chose.
    pub accepted: usize,
    /// The choices that follow from committed tokens, `accepted + 1` of them; none where the device had ended before.
    pub chosen: Vec<Chosen>,
}

/// What [`crate::Ops::next_step`] does, on the host: the oracle of its kernel, and its implementation where ops compute
/// when they are recorded.
#[derive(Debug, Clone, Default)]
pub struct HostSteps {
    sequence: SequenceSlot,
    tokens: Vec<TokenId>,
    limits: Option<StepLimits>,
    ended: bool,
    rows: Vec<Row>,
    outcomes: VecDeque<StepOutcome>,
}

impl HostSteps {
    /// See [`crate::Ops::start_steps`].
    pub fn start(&mut self, sequence: SequenceSlot, tokens: &[TokenId], limits: &StepLimits) {
        *self = Self {
            sequence,
            tokens: tokens.to_vec(),
            limits: Some(limits.clone()),
            ..Self::default()
        };
    }

    /// Forgets the steps that were not read.
    pub fn abandon(&mut self) {
        self.outcomes.clear();
    }

    /// Takes in what `rows` chose, and makes the rows of the next step, with up to `drafts` drafts.
    ///
    /// # Panics
    /// If steps were not started.
    pub fn advance(
        &mut self,
        rows: &[Row],
        chosen: &[Chosen],
        drafts: usize,
        lookup: Option<&NgramLookup>,
    ) {
        let limits = self.limits.as_ref().expect("start_steps comes first");
        if self.ended {
            self.outcomes.push_back(StepOutcome::default());
            return;
        }
        let proposed: Vec<TokenId> = rows[1..].iter().map(|row| row.token).collect();
        let accepted = accepted_drafts(chosen, &proposed);
        let outcome = StepOutcome {
            drafted: proposed.len(),
            accepted,
            chosen: chosen[..=accepted].to_vec(),
        };
        for choice in &outcome.chosen {
            match *choice {
                Chosen::Token(token) => {
                    self.tokens.push(token);
                    self.ended = limits.stop_ids.contains(&token)
                        || self.tokens.len() >= limits.tokens.min(limits.context) as usize;
                }
                Chosen::NonFinite => self.ended = true,
            }
            if self.ended {
                break;
            }
        }
        self.outcomes.push_back(outcome);
        let len = self.tokens.len();
        let room = (limits.context as usize).saturating_sub(len);
        let mut tokens = vec![self.tokens[len - 1]];
        if let Some(lookup) = lookup.filter(|_| !self.ended) {
            tokens.extend(lookup.look_up(&self.tokens, drafts.min(room)));
        }
        let position = |i: usize| Position::try_from(len - 1 + i).expect("within the context");
        self.rows = (0..)
            .zip(tokens)
            .map(|(i, token)| Row {
                token,
                position: position(i),
                sequence: self.sequence,
            })
            .collect();
    }

    /// The rows of the next step. After the end: the last one once more, which changes nothing.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// What came of the oldest step that was not read.
    pub fn pop(&mut self) -> Option<StepOutcome> {
        self.outcomes.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOKUP: NgramLookup = NgramLookup {
        min: 2,
        max: 3,
        order: MatchOrder::Earliest,
    };

    fn started(tokens: &[TokenId], last: u32, context: u32) -> HostSteps {
        let mut steps = HostSteps::default();
        let limits = StepLimits {
            tokens: last,
            context,
            stop_ids: vec![9],
        };
        steps.start(0, tokens, &limits);
        steps
    }

    fn row(token: TokenId, position: Position) -> Row {
        Row {
            token,
            position,
            sequence: 0,
        }
    }

    #[test]
    fn accepted_drafts_join_the_history_and_the_next_rows_follow_from_it() {
        let mut steps = started(&[1, 2, 3, 4, 1, 2], 100, 100);
        let rows = [row(2, 5), row(3, 6), row(7, 7)];
        let chosen = [3, 4, 8].map(Chosen::Token);
        steps.advance(&rows, &chosen, 2, Some(&LOOKUP));
        let outcome = steps.pop().unwrap();
        assert_eq!((outcome.drafted, outcome.accepted), (2, 1));
        assert_eq!(outcome.chosen, [3, 4].map(Chosen::Token));
        // 1 2 3 4 1 2 3 4: the last three stood at the start, and 1 2 followed.
        assert_eq!(steps.rows(), [row(4, 7), row(1, 8), row(2, 9)]);
    }

    #[test]
    fn a_stop_id_a_length_or_a_number_that_is_none_ends_them() {
        for (chosen, last) in [
            (vec![Chosen::Token(9)], 100),
            (vec![Chosen::Token(5)], 4),
            (vec![Chosen::NonFinite], 100),
        ] {
            let mut steps = started(&[1, 2, 3], last, 100);
            steps.advance(&[row(3, 2)], &chosen, 4, Some(&LOOKUP));
            assert_eq!(steps.pop().unwrap().chosen, chosen);
            let rows = steps.rows().to_vec();
            assert_eq!(rows.len(), 1);
            steps.advance(&rows, &[Chosen::Token(6)], 4, Some(&LOOKUP));
            assert_eq!(steps.pop(), Some(StepOutcome::default()));
            assert_eq!(steps.pop(), None);
        }
    }

    #[test]
    fn drafts_end_with_the_context() {
        for (context, rows) in [(20, 5), (9, 4), (8, 3), (7, 2), (6, 1)] {
            let mut steps = started(&[1, 2, 3, 4, 1], 100, context);
            steps.advance(&[row(1, 4)], &[Chosen::Token(2)], 4, Some(&LOOKUP));
            assert_eq!(steps.rows().len(), rows, "context {context}");
        }
    }
}
