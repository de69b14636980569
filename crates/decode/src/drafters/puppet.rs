//! Drafters for tests: they know the answer, and are right or wrong on purpose.
//!
//! Whatever a puppet proposes, the tokens of an answer must be those of plain decoding.

use foretoken_core::TokenId;

use super::Drafter;

/// How a [`Puppet`] behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Always right, as far as it knows the answer.
    Oracle,
    /// Always wrong.
    Wrong,
    /// Right, wrong or anything, by chance, and of any length.
    Random,
    /// Proposes nothing.
    Empty,
    /// Right up to an index that moves on with every step, wrong there: accepts 0, 1, …, k, 0, …
    Alternating,
    /// Proposes one token again and again: the end of the sequence, say.
    Spam(TokenId),
    /// Right at first, then ids outside the vocabulary, `u32::MAX` among them.
    OutOfVocabulary,
    /// Right, and longer than it was asked for.
    Longest,
}

impl Strategy {
    /// Every strategy.
    pub fn all(spam: TokenId) -> [Self; 8] {
        [
            Self::Oracle,
            Self::Wrong,
            Self::Random,
            Self::Empty,
            Self::Alternating,
            Self::Spam(spam),
            Self::OutOfVocabulary,
            Self::Longest,
        ]
    }
}

/// A drafter that follows a [`Strategy`].
#[derive(Debug)]
pub struct Puppet {
    strategy: Strategy,
    /// Prompt and answer as plain decoding would go on, beyond its end too where that is known.
    answer: Vec<TokenId>,
    vocab: u32,
    committed: usize,
    steps: usize,
    random: u64,
}

impl Puppet {
    /// A puppet that knows `answer`, the prompt included, of a model with `vocab` tokens.
    pub fn new(strategy: Strategy, answer: Vec<TokenId>, vocab: u32) -> Self {
        Self {
            strategy,
            answer,
            vocab,
            committed: 0,
            steps: 0,
            random: 1,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.random = self
            .random
            .wrapping_mul(0x5851_F42D_4C95_7F2D)
            .wrapping_add(0x1405_7B7E_F767_814F);
        (self.random >> 33) as usize % n
    }

    fn right(&self, i: usize) -> Option<TokenId> {
        self.answer.get(self.committed + i).copied()
    }

    fn wrong(&self, i: usize) -> TokenId {
        (self.right(i).unwrap_or(0) + 1) % self.vocab
    }

    fn all_right(&self, len: usize) -> Vec<TokenId> {
        (0..len).map_while(|i| self.right(i)).collect()
    }
}

impl Drafter for Puppet {
    fn name(&self) -> &'static str {
        "puppet"
    }

    fn start(&mut self, prompt: &[TokenId]) {
        self.committed = prompt.len();
    }

    fn committed(&mut self, tokens: &[TokenId]) {
        self.committed += tokens.len();
    }

    fn propose(&mut self, k: usize) -> Vec<TokenId> {
        self.steps += 1;
        match self.strategy {
            Strategy::Oracle => self.all_right(k),
            Strategy::Wrong => (0..k).map(|i| self.wrong(i)).collect(),
            Strategy::Random => (0..self.below(k + 2))
                .map(|i| match self.below(4) {
                    0 => self.below(self.vocab as usize) as TokenId,
                    _ => self.right(i).unwrap_or(0),
                })
                .collect(),
            Strategy::Empty => Vec::new(),
            Strategy::Alternating => {
                let at = (self.steps - 1) % (k + 1);
                (0..k)
                    .map_while(|i| {
                        if i == at {
                            Some(self.wrong(i))
                        } else {
                            self.right(i)
                        }
                    })
                    .collect()
            }
            Strategy::Spam(token) => vec![token; k],
            Strategy::OutOfVocabulary => {
                let bad = self.below(k + 1);
                let mut drafts = self.all_right(bad);
                drafts.resize(k, [self.vocab, u32::MAX][self.steps % 2]);
                drafts
            }
            Strategy::Longest => {
                let mut drafts = self.all_right(2 * k + 3);
                drafts.resize(2 * k + 3, 0);
                drafts
            }
        }
    }
}
