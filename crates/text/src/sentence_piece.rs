//! SentencePiece's byte-pair encoding: pieces with scores instead of merges with ranks.
//!
//! A text begins as its characters. Of all neighbours that together are a piece, the pair whose piece has the highest
//! score becomes one, the leftmost of equals first; until none is left. What is no piece then is spelled in bytes, which
//! have tokens of their own.
//!
//! Vocabularies write the space as U+2581 (`▁`), and a `▁` in a text means a space as well. Here both are spaces
//! everywhere: the pieces' spellings and the text are rewritten before they meet.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use crate::TextError;
use crate::error::shortened;
use crate::pre_tokenizer::cut_before_space;
use crate::vocabulary::{BYTE, CONTROL, UNKNOWN, UNUSED};

/// How vocabularies write a space.
pub(crate) const SPACE: char = '\u{2581}';

/// A long text is worked on in parts of about this many bytes where that changes nothing.
const PART_BYTES: usize = 1 << 12;

/// A vocabulary of pieces.
pub(crate) struct SentencePiece {
    /// Pieces that text can become, with spaces as spaces.
    pieces: HashMap<Box<str>, Piece>,
    /// The bytes of the longest of them.
    longest: usize,
    bytes: [Option<u32>; 256],
    unknown: Option<u32>,
    /// Each text begins with a space of its own.
    adds_space: bool,
    /// No piece goes on after a space that follows something else, so a text may be cut there.
    cuts_at_spaces: bool,
}

#[derive(Clone, Copy)]
struct Piece {
    id: u32,
    score: f32,
    /// A piece that may be made on the way to others but is never a token.
    unused: bool,
}

/// A character or what became of several: `start..end` of the text, and its neighbours.
struct Symbol {
    start: usize,
    end: usize,
    before: Option<usize>,
    after: Option<usize>,
}

/// Two neighbours that together are a piece.
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    /// The bytes of both, by which a pair is known to have changed since.
    bytes: usize,
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score
            .total_cmp(&other.score)
            .then(other.left.cmp(&self.left))
    }
}

/// A spelling or a text with spaces as spaces.
pub(crate) fn with_spaces(text: &str) -> Cow<'_, str> {
    if text.contains(SPACE) {
        Cow::Owned(text.replace(SPACE, " "))
    } else {
        Cow::Borrowed(text)
    }
}

/// The byte that `<0x41>` spells.
pub(crate) fn spelled_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

impl SentencePiece {
    /// From (spelling, type, whether it is a control token, score) in the order of ids. Of equal spellings the lowest id
    /// wins. `unknown` is the token for what cannot be spelled; without it, and without tokens for bytes, such text is left out.
    pub(crate) fn new<'a>(
        tokens: impl ExactSizeIterator<Item = (&'a str, i32, bool, f32)>,
        unknown: Option<u32>,
        adds_space: bool,
    ) -> Result<Self, TextError> {
        let mut pieces: HashMap<Box<str>, Piece> = HashMap::with_capacity(tokens.len());
        let mut bytes = [None; 256];
        let mut first_unknown = None;
        let mut longest = 0;
        let mut cuts_at_spaces = true;
        for ((token, kind, control, score), id) in tokens.zip(0_u32..) {
            if kind == BYTE {
                let byte = spelled_byte(token).ok_or_else(|| TextError::ByteToken {
                    id,
                    token: shortened(token),
                })?;
                if let Some(slot) = bytes.get_mut(usize::from(byte)) {
                    slot.get_or_insert(id);
                }
                continue;
            }
            if kind == UNKNOWN {
                first_unknown.get_or_insert(id);
            }
            if control || matches!(kind, UNKNOWN | CONTROL) || token.is_empty() {
                continue;
            }
            let spelling = with_spaces(token);
            longest = longest.max(spelling.len());
            cuts_at_spaces &= cut_before_space(&spelling, 1) == spelling.len();
            pieces.entry(spelling.into()).or_insert(Piece {
                id,
                score,
                unused: kind == UNUSED,
            });
        }
        Ok(Self {
            pieces,
            longest,
            bytes,
            unknown: unknown.or(first_unknown),
            adds_space,
            cuts_at_spaces,
        })
    }

    /// Appends the ids of a text whose spaces are spaces and in which no user-defined token is left.
    pub(crate) fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let text = if self.adds_space && !text.is_empty() {
            Cow::Owned(format!(" {text}"))
        } else {
            Cow::Borrowed(text)
        };
        let mut after_unknown = false;
        let mut rest = &*text;
        while !rest.is_empty() {
            let cut = if self.cuts_at_spaces {
                cut_before_space(rest, PART_BYTES)
            } else {
                rest.len()
            };
            let (part, after) = rest.split_at(cut);
            self.encode_part(part, &mut after_unknown, ids);
            rest = after;
        }
    }

    fn piece(&self, text: &str) -> Option<Piece> {
        if text.len() > self.longest {
            return None;
        }
        self.pieces.get(text).copied()
    }

    fn encode_part(&self, text: &str, after_unknown: &mut bool, ids: &mut Vec<u32>) {
        let mut symbols: Vec<Symbol> = text
            .char_indices()
            .enumerate()
            .map(|(index, (start, letter))| Symbol {
                start,
                end: start + letter.len_utf8(),
                before: index.checked_sub(1),
                after: Some(index + 1),
            })
            .collect();
        let count = symbols.len();
        if let Some(last) = symbols.last_mut() {
            last.after = None;
        }
        let mut pairs = BinaryHeap::with_capacity(count);
        // Where an unused piece was put together, so that it can be taken apart.
        let mut joints: HashMap<&str, usize> = HashMap::new();
        let mut consider =
            |symbols: &[Symbol], left: usize, right: usize, pairs: &mut BinaryHeap<Pair>| {
                let (Some(first), Some(second)) = (symbols.get(left), symbols.get(right)) else {
                    return;
                };
                let joined = &text[first.start..second.end];
                if let Some(piece) = self.piece(joined) {
                    pairs.push(Pair {
                        score: piece.score,
                        left,
                        right,
                        bytes: joined.len(),
                    });
                    if piece.unused {
                        joints.insert(joined, first.end - first.start);
                    }
                }
            };
        for right in 1..count {
            consider(&symbols, right - 1, right, &mut pairs);
        }
        while let Some(pair) = pairs.pop() {
            // Neighbours that have become part of another symbol are empty or longer now.
            let (left, right) = (&symbols[pair.left], &symbols[pair.right]);
            if left.start == left.end
                || right.start == right.end
                || (left.end - left.start) + (right.end - right.start) != pair.bytes
            {
                continue;
            }
            let (end, after) = (right.end, right.after);
            let before = left.before;
            symbols[pair.left].end = end;
            symbols[pair.left].after = after;
            symbols[pair.right].start = end;
            if let Some(after) = after {
                symbols[after].before = Some(pair.left);
                consider(&symbols, pair.left, after, &mut pairs);
            }
            if let Some(before) = before {
                consider(&symbols, before, pair.left, &mut pairs);
            }
        }
        let mut open: Vec<&str> = Vec::new();
        for symbol in symbols.iter().filter(|symbol| symbol.start < symbol.end) {
            open.push(&text[symbol.start..symbol.end]);
            while let Some(spelling) = open.pop() {
                match self.piece(spelling) {
                    Some(piece) if !piece.unused => {
                        ids.push(piece.id);
                        *after_unknown = false;
                    }
                    Some(_) if joints.contains_key(spelling) => {
                        let (left, right) = spelling.split_at(joints[spelling]);
                        open.push(right);
                        open.push(left);
                    }
                    _ => self.spell(spelling, after_unknown, ids),
                }
            }
        }
    }

    /// What is no piece: its bytes, or the unknown token once for all that follows one another.
    fn spell(&self, text: &str, after_unknown: &mut bool, ids: &mut Vec<u32>) {
        let from = ids.len();
        for byte in text.bytes() {
            match self.bytes.get(usize::from(byte)).copied().flatten() {
                Some(id) => ids.push(id),
                None => {
                    ids.truncate(from);
                    if !*after_unknown {
                        ids.extend(self.unknown);
                    }
                    *after_unknown = true;
                    return;
                }
            }
        }
        *after_unknown = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(pieces: &[(&str, f32)], text: &str) -> Vec<u32> {
        let tokens: Vec<(&str, i32, bool, f32)> = pieces
            .iter()
            .map(|(piece, score)| (*piece, 1, false, *score))
            .collect();
        let model = SentencePiece::new(tokens.into_iter(), None, false).unwrap();
        let mut ids = Vec::new();
        model.encode(text, &mut ids);
        ids
    }

    #[test]
    fn the_best_pair_is_made_first_and_the_leftmost_of_equals() {
        let pieces = [
            ("a", -9.0),
            ("b", -9.0),
            ("ab", -2.0),
            ("ba", -1.0),
            ("aa", -3.0),
        ];
        assert_eq!(encode(&pieces, "aba"), [0, 3]);
        assert_eq!(encode(&pieces, "aaa"), [4, 0]);
        assert_eq!(encode(&pieces, "aab"), [0, 2]);
        assert!(encode(&pieces, "").is_empty());
    }

    #[test]
    fn a_piece_that_is_no_number_of_score_does_no_harm() {
        let pieces = [
            ("a", f32::NAN),
            ("b", f32::INFINITY),
            ("ab", f32::NAN),
            ("ba", -f32::NAN),
        ];
        assert_eq!(encode(&pieces, "ab"), [2]);
    }

    #[test]
    fn bytes_are_spelled_in_hexadecimal() {
        assert_eq!(spelled_byte("<0x0A>"), Some(10));
        assert_eq!(spelled_byte("<0xfF>"), Some(255));
        for wrong in ["<0x0>", "<0x100>", "<0x+1>", "0x41", "<0x4 >", "<0xé>", ""] {
            assert_eq!(spelled_byte(wrong), None, "{wrong}");
        }
    }

    /// Every text of a few letters, against the rule followed step by step.
    #[test]
    fn short_texts_are_what_the_rule_says() {
        let pieces = [
            ("a", -90.0),
            ("b", -91.0),
            (" ", -92.0),
            ("ab", -3.0),
            ("ba", -5.0),
            (" a", -4.0),
            ("aba", -2.0),
            ("abab", -7.0),
            ("  ", -1.0),
            (" ab", -6.0),
        ];
        let by_rule = |text: &str| -> Vec<u32> {
            let mut parts: Vec<String> = text.chars().map(String::from).collect();
            let find = |part: &str| pieces.iter().position(|(piece, _)| *piece == part);
            loop {
                let mut best: Option<(f32, usize)> = None;
                for at in 1..parts.len() {
                    if let Some(found) = find(&format!("{}{}", parts[at - 1], parts[at]))
                        && best.is_none_or(|(score, _)| pieces[found].1 > score)
                    {
                        best = Some((pieces[found].1, at));
                    }
                }
                let Some((_, at)) = best else { break };
                let right = parts.remove(at);
                parts[at - 1].push_str(&right);
            }
            parts
                .iter()
                .map(|part| u32::try_from(find(part).unwrap()).unwrap())
                .collect()
        };
        for code in 0..3_u32.pow(9) {
            let mut rest = code;
            let text: String = (0..9)
                .map(|_| {
                    let letter = ['a', 'b', ' '][(rest % 3) as usize];
                    rest /= 3;
                    letter
                })
                .collect();
            assert_eq!(encode(&pieces, &text), by_rule(&text), "{text:?}");
        }
    }
}
