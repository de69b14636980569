//! [`Edges`]: whether a string begins or ends within the spelling of a control token.
//!
//! Asked of every string of a request, of which there may be a million, for vocabularies of thousands of control tokens. So what is left
//! of spellings after a cut lies sorted, and a string is looked up a byte at a time, as a word in a dictionary.

use crate::control_tokens::ControlTokens;

/// The most cuts that are kept. Published vocabularies have up to some 80,000; of one that has more every string counts as within.
const MOST_CUTS: usize = 1 << 20;

/// The ends and, backwards, the beginnings of spellings. `None`: too many.
pub(crate) struct Edges {
    ends: Option<Cuts>,
    beginnings: Option<Cuts>,
}

impl Edges {
    /// Of `spellings`, each cut at every place between two characters.
    pub(crate) fn new(spellings: &ControlTokens) -> Self {
        let cuts = || spellings.spellings().flat_map(cut_places);
        if cuts().nth(MOST_CUTS).is_some() {
            return Self {
                ends: None,
                beginnings: None,
            };
        }
        Self {
            ends: Some(Cuts::new(spellings.spellings().map(|spelling| {
                let bytes = spelling.as_bytes().to_vec();
                (bytes, cut_places(spelling).collect())
            }))),
            beginnings: Some(Cuts::new(spellings.spellings().map(|spelling| {
                let bytes = spelling.bytes().rev().collect();
                let places = cut_places(spelling).map(|at| spelling.len() - at);
                (bytes, places.collect())
            }))),
        }
    }

    /// Whether some spelling, cut at some place, goes on as `text` does.
    pub(crate) fn begins_within(&self, text: &str) -> bool {
        let meets = |cuts: &Cuts| cuts.meet(&mut text.bytes());
        self.ends.as_ref().is_none_or(meets)
    }

    /// Whether some spelling, cut at some place, ends before it as `text` does.
    pub(crate) fn ends_within(&self, text: &str) -> bool {
        let meets = |cuts: &Cuts| cuts.meet(&mut text.bytes().rev());
        self.beginnings.as_ref().is_none_or(meets)
    }
}

/// Where a spelling can be cut in two.
fn cut_places(spelling: &str) -> impl Iterator<Item = usize> {
    spelling.char_indices().skip(1).map(|(at, _)| at)
}

/// What is left of words after a cut.
struct Cuts {
    words: Vec<u8>,
    /// From where to where in `words`, in the order of what stands there.
    sorted: Vec<(u32, u32)>,
}

impl Cuts {
    /// Of words and the places that they are cut at.
    fn new(cut: impl Iterator<Item = (Vec<u8>, Vec<usize>)>) -> Self {
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let mut words = Vec::new();
        let mut sorted = Vec::new();
        for (word, places) in cut {
            let end = words.len() + word.len();
            sorted.extend(
                places
                    .into_iter()
                    .map(|at| (place(words.len() + at), place(end))),
            );
            words.extend(word);
        }
        let mut cuts = Self { words, sorted };
        let mut sorted = std::mem::take(&mut cuts.sorted);
        sorted.sort_unstable_by(|a, b| cuts.left(*a).cmp(cuts.left(*b)));
        sorted.dedup_by(|a, b| cuts.left(*a) == cuts.left(*b));
        cuts.sorted = sorted;
        cuts
    }

    fn left(&self, (from, to): (u32, u32)) -> &[u8] {
        self.words
            .get(from as usize..to as usize)
            .unwrap_or_default()
    }

    /// Whether `text` begins with what is left after one of the cuts, or the other way round.
    fn meet(&self, text: &mut dyn Iterator<Item = u8>) -> bool {
        let mut candidates = &self.sorted[..];
        for (depth, byte) in text.enumerate() {
            let at_depth = |cut: &(u32, u32)| {
                #[cfg(test)]
                tests::LOOKED_AT.set(tests::LOOKED_AT.get() + 1);
                self.left(*cut).get(depth).copied()
            };
            let from = candidates.partition_point(|cut| at_depth(cut) < Some(byte));
            candidates = candidates.get(from..).unwrap_or_default();
            let to = candidates.partition_point(|cut| at_depth(cut) <= Some(byte));
            candidates = candidates.get(..to).unwrap_or_default();
            match candidates.first() {
                None => return false,
                // The shortest comes first.
                Some(cut) if self.left(*cut).len() == depth + 1 => return true,
                Some(_) => {}
            }
        }
        !candidates.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// How many cuts were compared with a byte.
        pub(super) static LOOKED_AT: Cell<u64> = const { Cell::new(0) };
    }

    fn control(spellings: &[String]) -> ControlTokens {
        ControlTokens::new(spellings.iter().map(String::as_str).zip(0..)).unwrap()
    }

    /// Against the definition, which goes through all cuts of all spellings.
    #[test]
    fn edges_are_what_they_are_defined_as() {
        let mut state = 11_u64;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let mut text = |most: usize| -> String {
            let chars = 1 + random(most);
            (0..chars)
                .map(|_| ['<', '|', 'é', '>', 'a'][random(5)])
                .collect()
        };
        let mut found = [0, 0];
        for _ in 0..300 {
            let spellings: Vec<String> = (0..4).map(|_| format!("{}>", text(5))).collect();
            let edges = Edges::new(&control(&spellings));
            for _ in 0..30 {
                let text = text(7);
                let cuts = || {
                    spellings
                        .iter()
                        .flat_map(|spelling| cut_places(spelling).map(|at| spelling.split_at(at)))
                };
                let begins = cuts().any(|(_, end)| text.starts_with(end) || end.starts_with(&text));
                let ends = cuts().any(|(start, _)| text.ends_with(start) || start.ends_with(&text));
                assert_eq!(edges.begins_within(&text), begins, "{text} {spellings:?}");
                assert_eq!(edges.ends_within(&text), ends, "{text} {spellings:?}");
                found[0] += u32::from(begins);
                found[1] += u32::from(ends);
            }
        }
        assert!(
            found.iter().all(|found| (1000..8000).contains(found)),
            "{found:?}"
        );
    }

    #[test]
    fn a_string_costs_no_more_where_there_are_thousands_of_control_tokens() {
        let spellings: Vec<String> = (0..8000).map(|i| format!("<unused{i}>")).collect();
        let edges = Edges::new(&control(&spellings));
        LOOKED_AT.set(0);
        for i in 0..1000 {
            let text = format!("v{i}");
            assert!(!edges.begins_within(&text) && !edges.ends_within(&text));
        }
        // Of some 80,000 cuts: a few binary searches a string, not all of them.
        let looked_at = LOOKED_AT.get() / 1000;
        assert!(looked_at < 300, "{looked_at}");
        assert!(edges.begins_within("used17> and more") && edges.ends_within("more <unus"));
    }

    /// A file can have many times the control tokens of any other: then no table is made, and every edge is taken for one.
    #[test]
    fn of_too_many_cuts_none_are_kept() {
        let spellings: Vec<String> = (0..4200).map(|i| format!("{i:0>255}")).collect();
        let edges = Edges::new(&control(&spellings));
        assert!(edges.begins_within("x") && edges.ends_within("x"));
    }
}
