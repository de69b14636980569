//! `suffix`: what followed the last tokens most often when they stood in this prompt, this answer or earlier answers.
//!
//! The method is SuffixDecoding (Oliaro et al., 2024), its settings are vLLM's, and drafts are those of the library that
//! vLLM uses for it, up to the choice between equally frequent continuations. For each number of last tokens that occur
//! elsewhere too, the **match**, the most frequent token that followed them is the first draft, the most frequent
//! that followed them and it the second, and so on. A draft's **estimated probability** is the product of the shares: of the
//! occurrences of what stands before it, those that it followed. Drafts end before the first whose estimate is
//! below `min_token_prob`. A longer match may draft more: `max_spec_factor` times its length. Of the candidates, one a
//! match length and text, the one with the largest **score** is drafted, the sum of its estimates: as many tokens as it is
//! expected to be right about, were they independent.
//!
//! Counting is one file ([`automaton`]), forgetting old answers another ([`earlier`]); this one is the method.

mod automaton;
mod earlier;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use foretoken_core::TokenId;

use super::Drafter;
use automaton::{Run, SuffixAutomaton};
pub use earlier::{EarlierAnswers, MAX_EARLIER_TOKENS};

/// vLLM's four settings of suffix decoding, with its defaults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SuffixOptions {
    /// The most tokens that a match and its drafts have together, at least 1.
    pub max_tree_depth: u32,
    /// The most answers that are kept for later ones; 0: none is.
    pub max_cached_requests: u32,
    /// A match of m tokens drafts at most this times m.
    pub max_spec_factor: f32,
    /// The least estimated probability of a draft, 0 to 1.
    pub min_token_prob: f32,
}

impl Default for SuffixOptions {
    fn default() -> Self {
        Self {
            max_tree_depth: 24,
            max_cached_requests: 10_000,
            max_spec_factor: 1.0,
            min_token_prob: 0.1,
        }
    }
}

/// Looks the last tokens up in prompt and answer, and in the answers before.
///
/// Memory: the automaton of prompt and answer, about 165 bytes a token of natural text. A token committed costs a walk over
/// at most `max_tree_depth` suffixes; so does a draft, and a look at each candidate's tokens, whatever the texts' length.
#[derive(Debug)]
pub struct SuffixDrafter {
    options: SuffixOptions,
    /// Prompt and answer.
    own: SuffixAutomaton,
    /// Their last `max_tree_depth` tokens.
    tail: VecDeque<TokenId>,
    /// `None`: this answer looks at itself alone.
    earlier: Option<Rc<RefCell<EarlierAnswers>>>,
}

/// Tokens that may follow, and how good they are.
#[derive(Debug, Default)]
struct Candidate {
    tokens: Vec<TokenId>,
    score: f32,
}

impl SuffixDrafter {
    /// A drafter that looks in `earlier` answers too, where there are such. It only reads them: whoever owns them enters
    /// an answer when it has ended.
    ///
    /// # Panics
    /// If `max_tree_depth` is 0.
    pub fn new(options: SuffixOptions, earlier: Option<Rc<RefCell<EarlierAnswers>>>) -> Self {
        let depth = options.max_tree_depth as usize;
        assert!(depth > 0, "a run of tokens has at least one");
        Self {
            options,
            own: SuffixAutomaton::new(depth),
            tail: VecDeque::new(),
            earlier,
        }
    }
}

/// The best of the candidates of `longest` and its suffixes, in one automaton. Of equals the one with the longest match.
fn best_candidate(
    automaton: &mut SuffixAutomaton,
    longest: Run,
    k: usize,
    options: &SuffixOptions,
) -> Candidate {
    let depth = automaton.depth().min(options.max_tree_depth as usize);
    let mut best = Candidate::default();
    let mut run = Some(longest);
    while let Some(matched) = run.filter(|run| run.len > 0) {
        // Single precision and a millionth more, as the library has it.
        let by_factor = f64::from(matched.len as f32 * options.max_spec_factor) + 1e-6;
        let most = k.min(by_factor as usize).min(depth - matched.len);
        // No token scores more than 1.
        if most as f32 > best.score {
            let found = candidate(automaton, matched, most, options.min_token_prob);
            if found.score > best.score {
                best = found;
            }
        }
        run = automaton.shorter(matched);
    }
    best
}

/// The most frequent tokens after a match, one after the other.
fn candidate(
    automaton: &mut SuffixAutomaton,
    matched: Run,
    most: usize,
    min_token_prob: f32,
) -> Candidate {
    let mut found = Candidate::default();
    let (mut run, mut probability) = (matched, 1.0);
    while found.tokens.len() < most {
        let Some(next) = automaton.most_frequent(run) else {
            break;
        };
        probability *= next.share;
        if probability < min_token_prob {
            break;
        }
        found.tokens.push(next.token);
        found.score += probability;
        run = next.run();
    }
    found
}

impl Drafter for SuffixDrafter {
    fn name(&self) -> &'static str {
        "suffix"
    }

    fn start(&mut self, prompt: &[TokenId]) {
        self.own = SuffixAutomaton::new(self.own.depth());
        self.tail.clear();
        self.committed(prompt);
    }

    fn committed(&mut self, tokens: &[TokenId]) {
        for &token in tokens {
            self.own.push(token);
            if self.tail.len() == self.own.depth() {
                self.tail.pop_front();
            }
            self.tail.push_back(token);
        }
    }

    fn propose(&mut self, k: usize) -> Vec<TokenId> {
        // Of the last `max_tree_depth` tokens all but the first may match.
        let Some(longest) = self.tail.len().checked_sub(1) else {
            return Vec::new();
        };
        let matched = self.own.end(longest);
        let own = best_candidate(&mut self.own, matched, k, &self.options);
        let Some(earlier) = &self.earlier else {
            return own.tokens;
        };
        let mut earlier = earlier.borrow_mut();
        let automaton = &mut earlier.automaton;
        let longest = longest.min(automaton.depth() - 1);
        let context = self.tail.iter().skip(self.tail.len() - longest);
        let matched = automaton.find(context.copied());
        let theirs = best_candidate(automaton, matched, k, &self.options);
        if theirs.score > own.score {
            theirs.tokens
        } else {
            own.tokens
        }
    }
}

#[cfg(test)]
mod tests;
