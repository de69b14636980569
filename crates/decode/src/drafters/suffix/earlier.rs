//! Earlier answers of an engine: the oldest make room for the newest.

use std::collections::VecDeque;

use foretoken_core::TokenId;

use super::automaton::SuffixAutomaton;

/// The most tokens that are kept, of all answers together: fewer in a browser, whose tabs have little memory.
pub const MAX_EARLIER_TOKENS: usize = if cfg!(target_arch = "wasm32") {
    32_768
} else {
    65_536
};

/// The answers that `suffix` drafters of one engine look in, beside their own.
///
/// Memory: 4 bytes a token and the automaton of at most `3/2 ·` [`MAX_EARLIER_TOKENS`] tokens, because what was forgotten
/// stays in it until it is half of what was not. That is 16 MiB of natural text, half of it in a browser, and never twice as
/// much. Entering an answer costs what committing its tokens did; each time that a third of all was forgotten, the rest is
/// counted anew.
#[derive(Debug)]
pub struct EarlierAnswers {
    pub(super) automaton: SuffixAutomaton,
    /// The oldest first.
    answers: VecDeque<Box<[TokenId]>>,
    max_answers: usize,
    max_tokens: usize,
    /// Tokens of `answers`.
    tokens: usize,
    /// Tokens in the automaton of answers that are not there any more.
    pub(super) forgotten: usize,
}

impl EarlierAnswers {
    /// None yet. Up to `max_answers` are kept; drafts and the run they follow have up to `depth` tokens together.
    ///
    /// # Panics
    /// If `depth` is 0.
    pub fn new(depth: usize, max_answers: usize) -> Self {
        Self::with_max_tokens(depth, max_answers, MAX_EARLIER_TOKENS)
    }

    pub(super) fn with_max_tokens(depth: usize, max_answers: usize, max_tokens: usize) -> Self {
        assert!(depth > 0, "a run of tokens has at least one");
        Self {
            automaton: SuffixAutomaton::new(depth),
            answers: VecDeque::new(),
            max_answers,
            max_tokens,
            tokens: 0,
            forgotten: 0,
        }
    }

    /// Takes in an answer that has ended: of one that is too long its end. The oldest are forgotten where there are too many.
    pub fn enter(&mut self, answer: &[TokenId]) {
        let answer = &answer[answer.len().saturating_sub(self.max_tokens)..];
        if answer.is_empty() || self.max_answers == 0 {
            return;
        }
        while self.answers.len() >= self.max_answers || self.tokens + answer.len() > self.max_tokens
        {
            let Some(oldest) = self.answers.pop_front() else {
                break;
            };
            self.automaton.forget(&oldest);
            self.tokens -= oldest.len();
            self.forgotten += oldest.len();
        }
        if self.forgotten > self.tokens / 2 {
            self.automaton = SuffixAutomaton::new(self.automaton.depth());
            self.forgotten = 0;
            for answer in &self.answers {
                append(&mut self.automaton, answer);
            }
        }
        append(&mut self.automaton, answer);
        self.tokens += answer.len();
        self.answers.push_back(answer.into());
    }

    /// The answers that are kept, the oldest first.
    pub fn answers(&self) -> impl Iterator<Item = &[TokenId]> {
        self.answers.iter().map(|answer| &answer[..])
    }
}

fn append(automaton: &mut SuffixAutomaton, text: &[TokenId]) {
    automaton.begin_text();
    for &token in text {
        automaton.push(token);
    }
}
