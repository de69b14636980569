//! `ngram`: what followed the last tokens when they stood here before (prompt lookup).
//!
//! Drafts are those of vLLM's `ngram` method, token for token: the longest suffix of `max` down to `min` tokens that
//! also occurs earlier (it may overlap itself), and the tokens that follow its earliest occurrence. The sequence is
//! never scanned again: every n-gram is hashed once, when the token after it is committed.

use std::collections::HashMap;

use foretoken_core::{MatchOrder, NgramLookup, TokenId};

use super::Drafter;

/// Base of the polynomial hash: odd, with well spread bits.
const BASE: u64 = 0x9E37_79B9_7F4A_7C15;

/// Looks the last tokens up in what came before.
///
/// Memory: one entry a committed token and n-gram length, so at most `context · (max − min + 1)` entries of 16
/// bytes. A draft costs one look-up a length and one comparison of at most `max` tokens for each that hits, whatever
/// the sequence's length.
#[derive(Debug)]
pub struct NgramDrafter {
    min: usize,
    max: usize,
    order: MatchOrder,
    tokens: Vec<TokenId>,
    /// `hashes[i]`: polynomial hash of the first i tokens.
    hashes: Vec<u64>,
    /// `powers[n]`: `BASE` to the n.
    powers: Vec<u64>,
    /// Per length, `min` first: hash of an n-gram → index of the token that followed it. Lengths longer than the
    /// sequence have no table yet.
    followers: Vec<HashMap<u64, u32>>,
    /// Tokens compared so far: what the tests count.
    #[cfg(test)]
    compared: usize,
}

impl NgramDrafter {
    /// A drafter for n-grams of `min..=max` tokens.
    ///
    /// # Panics
    /// If `min` is 0 or above `max`.
    pub fn new(min: usize, max: usize, order: MatchOrder) -> Self {
        assert!(
            0 < min && min <= max,
            "n-grams of {min} to {max} tokens: at least 1, and the least not above the most"
        );
        Self {
            min,
            max,
            order,
            tokens: Vec::new(),
            hashes: vec![0],
            powers: vec![1],
            followers: Vec::new(),
            #[cfg(test)]
            compared: 0,
        }
    }

    /// The hash of the `len` tokens before index `end`.
    fn hash(&self, end: usize, len: usize) -> u64 {
        self.hashes[end].wrapping_sub(self.hashes[end - len].wrapping_mul(self.powers[len]))
    }

    /// Takes a token, and enters the n-grams that ended before it: they have a follower now.
    fn push(&mut self, token: TokenId) {
        let end = self.tokens.len();
        let follower = u32::try_from(end).expect("a sequence is shorter than its context");
        for len in self.min..=self.max.min(end) {
            if self.followers.len() <= len - self.min {
                self.followers.push(HashMap::new());
            }
            let hash = self.hash(end, len);
            let entry = self.followers[len - self.min].entry(hash);
            match self.order {
                MatchOrder::Earliest => entry.or_insert(follower),
                MatchOrder::Latest => entry.insert_entry(follower).into_mut(),
            };
        }
        self.hashes.push(
            self.hashes[end]
                .wrapping_mul(BASE)
                .wrapping_add(u64::from(token) + 1),
        );
        if self.powers.len() <= self.max {
            self.powers
                .push(self.powers[self.powers.len() - 1].wrapping_mul(BASE));
        }
        self.tokens.push(token);
    }

    /// Index of the token that followed the longest suffix when it stood earlier.
    fn follower(&mut self) -> Option<usize> {
        let end = self.tokens.len();
        for (i, followers) in self.followers.iter().enumerate().rev() {
            let len = self.min + i;
            let Some(&follower) = followers.get(&self.hash(end, len)) else {
                continue;
            };
            let follower = follower as usize;
            #[cfg(test)]
            {
                self.compared += len;
            }
            // Two n-grams of one hash: whichever came second is not found. That costs a draft, never a wrong match.
            if self.tokens[follower - len..follower] == self.tokens[end - len..] {
                return Some(follower);
            }
        }
        None
    }
}

impl Drafter for NgramDrafter {
    fn name(&self) -> &'static str {
        "ngram"
    }

    fn start(&mut self, prompt: &[TokenId]) {
        *self = Self::new(self.min, self.max, self.order);
        self.committed(prompt);
    }

    fn committed(&mut self, tokens: &[TokenId]) {
        for &token in tokens {
            self.push(token);
        }
    }

    fn propose(&mut self, k: usize) -> Vec<TokenId> {
        match self.follower() {
            Some(at) => self.tokens[at..].iter().copied().take(k).collect(),
            None => Vec::new(),
        }
    }

    fn lookup(&self) -> Option<NgramLookup> {
        Some(NgramLookup {
            min: u32::try_from(self.min).ok()?,
            max: u32::try_from(self.max).ok()?,
            order: self.order,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(tokens: &[TokenId], min: usize, max: usize, order: MatchOrder) -> Vec<TokenId> {
        let mut drafter = NgramDrafter::new(min, max, order);
        drafter.start(tokens);
        drafter.propose(4)
    }

    #[test]
    fn the_tokens_after_the_earliest_or_latest_occurrence_of_the_longest_suffix() {
        let earliest = MatchOrder::Earliest;
        assert_eq!(draft(&[1, 2, 3, 4, 2, 3], 2, 3, earliest), [4, 2, 3]);
        let tokens = [7, 1, 7, 2, 7];
        assert_eq!(draft(&tokens, 1, 1, earliest), [1, 7, 2, 7]);
        assert_eq!(draft(&tokens, 1, 1, MatchOrder::Latest), [2, 7]);
        // A match may overlap the suffix.
        assert_eq!(draft(&[5, 5, 5], 2, 2, earliest), [5]);
        for short in [&[][..], &[1], &[1, 2]] {
            assert_eq!(draft(short, 2, 9, earliest), []);
        }
    }

    #[test]
    fn equals_a_scan_after_every_token_however_they_are_committed() {
        let mut state = 1u64;
        let mut random = move |n: u64| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (state >> 33) % n
        };
        let mut found = 0;
        for case in 0..200 {
            let order = if case % 2 == 0 {
                MatchOrder::Earliest
            } else {
                MatchOrder::Latest
            };
            let min = 1 + random(3) as usize;
            let max = min + random(4) as usize;
            let vocab = 2 + random(4);
            let mut drafter = NgramDrafter::new(min, max, order);
            let mut tokens: Vec<TokenId> = (0..random(20)).map(|_| random(vocab) as u32).collect();
            drafter.start(&tokens);
            for _ in 0..20 {
                let draft = drafter.propose(4);
                let lookup = drafter.lookup().unwrap();
                assert_eq!(draft, lookup.look_up(&tokens, 4), "case {case}");
                found += usize::from(!draft.is_empty());
                let block: Vec<TokenId> =
                    (0..1 + random(4)).map(|_| random(vocab) as u32).collect();
                drafter.committed(&block);
                tokens.extend(block);
            }
        }
        assert!(found > 1000, "only {found} drafts");
    }

    #[test]
    fn a_draft_on_a_long_prompt_compares_no_more_than_on_a_short_one() {
        let prompt: Vec<TokenId> = (0..100_000).map(|i| i % 1000 + i / 50_000).collect();
        let mut drafter = NgramDrafter::new(2, 5, MatchOrder::Earliest);
        drafter.start(&prompt);
        assert_eq!(drafter.compared, 0, "committing compares nothing");
        let mut drafted = 0;
        for step in 0..1000 {
            drafted += drafter.propose(8).len();
            drafter.committed(&[step % 1000]);
        }
        assert!(drafted > 1000, "{drafted}");
        assert!(
            drafter.compared <= 1000 * (2 + 3 + 4 + 5),
            "{}",
            drafter.compared
        );
        let entries: usize = drafter.followers.iter().map(HashMap::len).sum();
        assert!(entries <= 101_000 * 4);
    }

    #[test]
    fn a_new_answer_forgets_the_old_one() {
        let mut drafter = NgramDrafter::new(1, 2, MatchOrder::Earliest);
        drafter.start(&[1, 2, 1]);
        assert_eq!(drafter.propose(1), [2]);
        drafter.start(&[3, 1]);
        assert_eq!(drafter.propose(1), []);
    }
}
