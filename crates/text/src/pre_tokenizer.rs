//! Cutting text into words, each of which byte-pair encoding then merges for itself.
//!
//! The published expressions end in `\s+(?!\S)|\s+`: a run of white space, without its last character
//! if a word follows (that character belongs to the word). A look-ahead needs a backtracking engine, whose
//! stack a megabyte of spaces exhausts. So the look-ahead is left out of the expression and done by hand: a
//! match of white space that does not end the text gives its last character back. What remains is a regular
//! language and runs in linear time; no expression looks behind, so the search can go on from there.

use tokenizers::pattern::Pattern;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::utils::SysRegex;
use tokenizers::{Offsets, PreTokenizedString, PreTokenizer, SplitDelimiterBehavior};

use crate::TextError;
use crate::error::shortened;

/// The names of `tokenizer.ggml.pre` that are known.
pub const PRE_TOKENIZERS: [&str; 4] = ["gpt-2", "llama-bpe", "qwen2", "smollm"];

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+";

/// How one family of vocabularies cuts text, and what goes with it.
pub(crate) struct Family {
    pub(crate) words: WordSplit,
    /// Text is brought to Unicode's composed form first.
    pub(crate) nfc: bool,
    /// A word that is a token is that token, whatever the merges would make of it.
    pub(crate) ignore_merges: bool,
    /// Whether a prompt begins with BOS when the file does not say.
    pub(crate) adds_bos: bool,
}

impl Family {
    /// By the name in the file; an unknown name, or none, is an error, never a guess.
    pub(crate) fn named(pre: Option<&str>) -> Result<Self, TextError> {
        let known = || PRE_TOKENIZERS.join(", ");
        let Some(pre) = pre else {
            return Err(TextError::MissingPreTokenizer { known: known() });
        };
        let (regex, single_digits, newline_runs) = match pre {
            "gpt-2" => (GPT2, false, false),
            "smollm" => (GPT2, true, false),
            "llama-bpe" => (LLAMA3, false, true),
            "qwen2" => (QWEN2, false, true),
            _ => {
                return Err(TextError::UnknownPreTokenizer {
                    pre: shortened(pre),
                    known: known(),
                });
            }
        };
        Ok(Self {
            words: WordSplit {
                pattern: WordPattern {
                    regex: SysRegex::new(regex).map_err(|error| TextError::Tokenizer {
                        message: error.to_string(),
                    })?,
                    newline_runs,
                },
                single_digits,
            },
            nfc: pre == "qwen2",
            ignore_merges: pre == "llama-bpe",
            adds_bos: pre == "llama-bpe",
        })
    }
}

/// Digits (where the family splits them), then words, then the byte alphabet.
pub(crate) struct WordSplit {
    pattern: WordPattern,
    single_digits: bool,
}

impl PreTokenizer for WordSplit {
    fn pre_tokenize(&self, text: &mut PreTokenizedString) -> tokenizers::Result<()> {
        if self.single_digits {
            Digits::new(true).pre_tokenize(text)?;
        }
        text.split(|_, piece| piece.split(&self.pattern, SplitDelimiterBehavior::Isolated))?;
        ByteLevel::new(false, false, false).pre_tokenize(text)
    }
}

struct WordPattern {
    regex: SysRegex,
    /// The expression has `\s*[\r\n]+` before the look-ahead: white space that ends in a line break
    /// was matched by that and gives nothing back.
    newline_runs: bool,
}

impl WordPattern {
    /// The end of the word that begins a text, relative to the text, as (start, end).
    fn next_word(&self, text: &str) -> Option<(usize, usize)> {
        let (start, end) = self.regex.find_iter(text).next()?;
        let word = text.get(start..end)?;
        let last = word.chars().next_back()?;
        let gives_back = end < text.len()
            && word.len() > last.len_utf8()
            && !(self.newline_runs && matches!(last, '\r' | '\n'))
            && word.chars().all(char::is_whitespace);
        Some((
            start,
            if gives_back {
                end - last.len_utf8()
            } else {
                end
            },
        ))
    }
}

impl Pattern for &WordPattern {
    fn find_matches(&self, inside: &str) -> tokenizers::Result<Vec<(Offsets, bool)>> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some((start, end)) = self.next_word(&inside[at..]) {
            if start > 0 {
                found.push(((at, at + start), false));
            }
            found.push(((at + start, at + end), true));
            at += end;
        }
        if at < inside.len() || found.is_empty() {
            found.push(((at, inside.len()), false));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(pre: &str, text: &str) -> Vec<String> {
        let family = Family::named(Some(pre)).unwrap();
        (&family.words.pattern)
            .find_matches(text)
            .unwrap()
            .into_iter()
            .map(|((start, end), _)| text[start..end].to_string())
            .collect()
    }

    #[test]
    fn the_last_space_belongs_to_the_word() {
        for pre in PRE_TOKENIZERS {
            assert_eq!(words(pre, "a   b"), ["a", "  ", " b"], "{pre}");
            assert_eq!(words(pre, "a   "), ["a", "   "], "{pre}");
            assert_eq!(words(pre, ""), [""], "{pre}");
        }
        assert_eq!(words("gpt-2", "a\n\nb"), ["a", "\n", "\n", "b"]);
        assert_eq!(words("qwen2", "a\n\nb"), ["a", "\n\n", "b"]);
        assert_eq!(words("qwen2", "a \n  b"), ["a", " \n", " ", " b"]);
    }

    #[test]
    fn an_unknown_or_absent_name_is_refused_with_the_known_ones() {
        for name in PRE_TOKENIZERS {
            assert!(Family::named(Some(name)).is_ok(), "{name}");
        }
        let unknown = Family::named(Some("gpt-3")).err().unwrap().to_string();
        assert!(
            unknown.contains("gpt-3") && unknown.contains("llama-bpe"),
            "{unknown}"
        );
        let absent = Family::named(None).err().unwrap().to_string();
        assert!(absent.contains("smollm"), "{absent}");
    }
}
