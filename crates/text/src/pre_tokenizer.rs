//! Cutting text into words, each of which byte-pair encoding then merges for itself.
//!
//! A family cuts in steps: each expression cuts what the one before it left, and both what it matches and what lies
//! between is a piece.
//!
//! Most published expressions end in `\s+(?!\S)|\s+`: a run of white space, without its last character
//! if a word follows (that character belongs to the word). A look-ahead needs a backtracking engine, whose
//! stack a megabyte of spaces exhausts. So the look-ahead is left out of the expression and done by hand: a
//! match of white space that does not end the text gives its last character back. What remains is a regular
//! language and runs in linear time; no expression looks behind, so the search can go on from there.

use tokenizers::utils::SysRegex;

use crate::TextError;
use crate::error::shortened;

/// The names of `tokenizer.ggml.pre` that are known.
pub const PRE_TOKENIZERS: [&str; 15] = [
    "gpt-2",
    "smollm",
    "refact",
    "starcoder",
    "llama-bpe",
    "llama3",
    "llama-v3",
    "smaug-bpe",
    "qwen2",
    "deepseek-r1-qwen",
    "tekken",
    "falcon",
    "deepseek-coder",
    "deepseek-llm",
    "deepseek-v3",
];

// Each without its look-ahead.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+";
const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+";
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+"##;
/// Letters as one published tokenizer lists them.
const DEEPSEEK_LETTERS: &str = "\\s?[A-Za-z\
    \u{00B5}\u{00C0}-\u{00D6}\u{00D8}-\u{00F6}\u{00F8}-\u{01BA}\u{01BC}-\u{01BF}\u{01C4}-\u{0293}\
    \u{0295}-\u{02AF}\u{0370}-\u{0373}\u{0376}\u{0377}\u{037B}-\u{037D}\u{037F}\u{0386}\u{0388}-\u{038A}\
    \u{038C}\u{038E}-\u{03A1}\u{03A3}-\u{03F5}\u{03F7}-\u{0481}\u{048A}-\u{052F}\u{0531}-\u{0556}\
    \u{10A0}-\u{10C5}\u{13A0}-\u{13F5}\u{13F8}-\u{13FD}\u{1C90}-\u{1CBA}\u{1CBD}-\u{1CBF}\
    \u{1D00}-\u{1D2B}\u{1D6B}-\u{1D77}\u{1D79}-\u{1D9A}\u{1E00}-\u{1F15}\u{1F18}-\u{1F1D}\
    \u{1F20}-\u{1F45}\u{1F48}-\u{1F4D}\u{1F50}-\u{1F57}\u{1F59}\u{1F5B}\u{1F5D}\u{1F5F}-\u{1F7D}\
    \u{1F80}-\u{1FB4}\u{1FB6}-\u{1FBC}\u{1FBE}\u{1FC2}-\u{1FC4}\u{1FC6}-\u{1FCC}\u{1FD0}-\u{1FD3}\
    \u{1FD6}-\u{1FDB}\u{1FE0}-\u{1FEC}\u{1FF2}-\u{1FF4}\u{1FF6}-\u{1FFC}\u{2102}\u{2107}\
    \u{210A}-\u{2113}\u{2115}\u{2119}-\u{211D}\u{2124}\u{2126}\u{2128}\u{212A}-\u{212D}\u{212F}-\u{2134}\
    \u{2139}\u{213C}-\u{213F}\u{2145}-\u{2149}\u{214E}\u{2183}\u{2184}\u{2C00}-\u{2C7B}\u{2C7E}-\u{2CE4}\
    \u{2CEB}-\u{2CEE}\u{2CF2}\u{2CF3}\u{A640}-\u{A66D}\u{A680}-\u{A69B}\u{A722}-\u{A76F}\
    \u{A771}-\u{A787}\u{A78B}-\u{A78E}\u{AB70}-\u{ABBF}\u{FB00}-\u{FB06}\u{FB13}-\u{FB17}\
    \u{FF21}-\u{FF3A}\u{FF41}-\u{FF5A}\u{10400}-\u{1044F}\u{104B0}-\u{104D3}\u{104D8}-\u{104FB}\
    \u{10C80}-\u{10CB2}\u{10CC0}-\u{10CF2}\u{118A0}-\u{118DF}\u{1E900}-\u{1E943}]+";
const DEEPSEEK_MARKS: &str =
    "\\s?[!-/:-~\u{FF01}-\u{FF0F}\u{FF1A}-\u{FF5E}\u{2018}-\u{201F}\u{3000}-\u{3002}]+";
const DEEPSEEK_EAST_ASIAN: &str = "[\u{4E00}-\u{9FA5}\u{0800}-\u{4E00}\u{AC00}-\u{D7FF}]+";
const ONE_NUMBER: &str = r"\p{N}";

/// How one family of vocabularies cuts text, and what goes with it.
pub(crate) struct Family {
    pub(crate) words: WordSplit,
    /// Cuts words once more when they are spelled in bytes' letters, some of which are numbers (`²`).
    pub(crate) letters: WordSplit,
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
        let gpt2 = (GPT2, LookAhead::AnyWhiteSpace);
        let of = |regex| (regex, LookAhead::None);
        let newlines = |regex| (regex, LookAhead::NotLineBreaks);
        let steps: &[(&str, LookAhead)] = match pre {
            "gpt-2" => &[gpt2],
            "smollm" | "refact" | "starcoder" => &[of(ONE_NUMBER), gpt2],
            "llama-bpe" | "llama3" | "llama-v3" | "smaug-bpe" => &[newlines(LLAMA3)],
            "qwen2" | "deepseek-r1-qwen" => &[newlines(QWEN2)],
            "tekken" => &[newlines(TEKKEN)],
            "falcon" => &[of(PUNCTUATION_RUN), gpt2],
            "deepseek-coder" => &[
                of(r"[\r\n]"),
                of(r"\s?\p{L}+"),
                of(r"\s?\p{P}+"),
                of(DEEPSEEK_EAST_ASIAN),
                of(ONE_NUMBER),
            ],
            "deepseek-llm" => &[
                of(r"[\r\n]"),
                of(DEEPSEEK_LETTERS),
                of(DEEPSEEK_MARKS),
                of(r"\s+$"),
                of(DEEPSEEK_EAST_ASIAN),
                of(ONE_NUMBER),
            ],
            "deepseek-v3" => &[
                of(r"\p{N}{1,3}"),
                of("[\u{4E00}-\u{9FA5}\u{3040}-\u{309F}\u{30A0}-\u{30FF}]+"),
                newlines(DEEPSEEK3),
            ],
            _ => {
                return Err(TextError::UnknownPreTokenizer {
                    pre: shortened(pre),
                    known: known(),
                });
            }
        };
        let split = |steps: &[(&str, LookAhead)]| -> Result<WordSplit, TextError> {
            let steps = steps
                .iter()
                .map(|(regex, look_ahead)| WordPattern::new(regex, *look_ahead))
                .collect::<Result<_, _>>()?;
            Ok(WordSplit { steps })
        };
        let letters: &[(&str, LookAhead)] = match pre {
            "falcon" => &[of(r"\p{N}+"), of("[0-9][0-9][0-9]")],
            _ => &[],
        };
        let llama3 = matches!(pre, "llama-bpe" | "llama3" | "llama-v3");
        Ok(Self {
            words: split(steps)?,
            letters: split(letters)?,
            nfc: matches!(pre, "qwen2" | "deepseek-r1-qwen"),
            ignore_merges: llama3 || pre == "tekken",
            adds_bos: llama3 || pre == "tekken",
        })
    }
}

/// The words of GPT-2, which byte-level steps cut unless told not to.
pub(crate) fn gpt2_words() -> Result<WordSplit, TextError> {
    Ok(WordSplit {
        steps: vec![WordPattern::new(GPT2, LookAhead::AnyWhiteSpace)?],
    })
}

/// A published expression with its look-ahead, as one that is known without; `None` for others.
pub(crate) fn known_words(published: &str) -> Result<Option<WordSplit>, TextError> {
    const WITH: &str = r"|\s+(?!\S)|\s+";
    let escaped = published.replace('\r', r"\r").replace('\n', r"\n");
    let Some(before) = escaped.strip_suffix(WITH) else {
        return Ok(None);
    };
    let known = [GPT2, LLAMA3, QWEN2, TEKKEN, O200K, QWEN35, DEEPSEEK3]
        .into_iter()
        .find(|known| known.strip_suffix(r"|\s+") == Some(before));
    let look_ahead = match known {
        None => return Ok(None),
        Some(GPT2) => LookAhead::AnyWhiteSpace,
        Some(_) => LookAhead::NotLineBreaks,
    };
    let steps = vec![WordPattern::new(known.unwrap_or(GPT2), look_ahead)?];
    Ok(Some(WordSplit { steps }))
}

/// Whether an expression needs a backtracking engine, as far as its text shows; what does not is matched in linear time.
pub(crate) fn backtracks(regex: &str) -> bool {
    const SIGNS: [&str; 18] = [
        "(?=", "(?!", "(?<", "(?>", "(?(", "(?P=", "(?P>", "(?&", "(?R", "++", "*+", "?+", "}+",
        r"\k", r"\K", r"\G", r"\g", r"\Z",
    ];
    let back_reference = regex
        .as_bytes()
        .windows(2)
        .any(|pair| pair[0] == b'\\' && matches!(pair[1], b'1'..=b'9'));
    back_reference || SIGNS.iter().any(|sign| regex.contains(sign))
}

/// Punctuation in Unicode's sense and in ASCII's.
pub(crate) const PUNCTUATION: &str = r"[\p{P}$+<=>^`|~]";
const PUNCTUATION_RUN: &str = r"[\p{P}$+<=>^`|~]+";

/// The steps of a family.
pub(crate) struct WordSplit {
    pub(crate) steps: Vec<WordPattern>,
}

impl WordSplit {
    /// The words of a text, in order; together they are the text.
    pub(crate) fn words<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let mut words = vec![text];
        for step in &self.steps {
            let mut finer = Vec::with_capacity(words.len());
            for word in words {
                step.cut(word, &mut finer);
            }
            words = finer;
        }
        words
    }
}

/// What `\s+(?!\S)` does beside an expression it was left out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookAhead {
    /// The expression has none.
    None,
    /// White space gives its last character back to the word that follows.
    AnyWhiteSpace,
    /// As well, but the expression has `\s*[\r\n]+` before it: white space that ends in a line break
    /// was matched by that and gives nothing back.
    NotLineBreaks,
}

/// One expression.
pub(crate) struct WordPattern {
    regex: SysRegex,
    look_ahead: LookAhead,
}

impl WordPattern {
    pub(crate) fn new(regex: &str, look_ahead: LookAhead) -> Result<Self, TextError> {
        Ok(Self {
            regex: SysRegex::new(regex).map_err(|error| TextError::Tokenizer {
                message: error.to_string(),
            })?,
            look_ahead,
        })
    }

    /// Appends the matches and what lies between, both in order and none of them empty.
    fn cut<'a>(&self, text: &'a str, out: &mut Vec<&'a str>) {
        for (piece, _) in self.pieces(text) {
            out.push(piece);
        }
    }

    /// The matches (`true`) and what lies between, in order, none of them empty.
    pub(crate) fn pieces<'a>(&self, text: &'a str) -> Vec<(&'a str, bool)> {
        let mut pieces = Vec::new();
        let mut push = |piece: &'a str, matched| {
            if !piece.is_empty() {
                pieces.push((piece, matched));
            }
        };
        let mut rest = text;
        if self.look_ahead == LookAhead::None {
            let mut at = 0;
            for (start, end) in self.regex.find_iter(text) {
                push(text.get(at..start).unwrap_or_default(), false);
                push(text.get(start..end).unwrap_or_default(), true);
                at = end;
            }
            rest = text.get(at..).unwrap_or_default();
        } else {
            while let Some((start, end)) = self.next_word(rest) {
                push(&rest[..start], false);
                push(&rest[start..end], true);
                rest = &rest[end..];
            }
        }
        push(rest, false);
        pieces
    }

    /// The first word of a text, as (start, end).
    fn next_word(&self, text: &str) -> Option<(usize, usize)> {
        let (start, end) = self.regex.find_iter(text).next()?;
        let word = text.get(start..end)?;
        let last = word.chars().next_back()?;
        let gives_back = end < text.len()
            && word.len() > last.len_utf8()
            && !(self.look_ahead == LookAhead::NotLineBreaks && matches!(last, '\r' | '\n'))
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

/// The first place at or after `from` where a space follows something that is not white space; the end if there is none.
///
/// All families begin a new word there and no expression looks behind it, and the white space before it
/// has its word already; so both sides cut alone as they would together. No composition
/// crosses it either: the space is a starter that composes with nothing before it.
pub(crate) fn cut_before_space(text: &str, from: usize) -> usize {
    text.bytes()
        .enumerate()
        .skip(from.max(1))
        .filter(|(_, byte)| *byte == b' ')
        .map(|(at, _)| at)
        .find(|at| {
            text[..*at]
                .chars()
                .next_back()
                .is_some_and(|before| !before.is_whitespace())
        })
        .unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(pre: &str, text: &str) -> Vec<String> {
        let family = Family::named(Some(pre)).unwrap();
        let words = family.words.words(text);
        words.into_iter().map(str::to_string).collect()
    }

    #[test]
    fn the_last_space_belongs_to_the_word() {
        for pre in [
            "gpt-2",
            "smollm",
            "llama-bpe",
            "qwen2",
            "tekken",
            "falcon",
            "deepseek-v3",
        ] {
            assert_eq!(words(pre, "a   b"), ["a", "  ", " b"], "{pre}");
            assert_eq!(words(pre, "a   "), ["a", "   "], "{pre}");
            assert!(words(pre, "").is_empty(), "{pre}");
        }
        assert_eq!(words("gpt-2", "a\n\nb"), ["a", "\n", "\n", "b"]);
        assert_eq!(words("qwen2", "a\n\nb"), ["a", "\n\n", "b"]);
        assert_eq!(words("qwen2", "a \n  b"), ["a", " \n", " ", " b"]);
    }

    #[derive(serde::Deserialize)]
    struct Case {
        text: String,
        words: Vec<String>,
        published: Vec<String>,
    }

    #[derive(serde::Deserialize)]
    struct Reference {
        families: Vec<String>,
        published: Vec<String>,
        cases: Vec<Case>,
    }

    /// FNV-1a in hexadecimal.
    fn hash(text: &str) -> String {
        let hash = text.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
        });
        format!("{hash:016x}")
    }

    /// The words themselves, which a small vocabulary shows only where its merges reach across.
    #[test]
    fn words_are_those_of_the_reference() {
        let reference: Reference =
            serde_json::from_str(include_str!("../tests/data/words.json")).unwrap();
        assert!(reference.cases.len() >= 200);
        let letters: Vec<char> = crate::byte_alphabet().collect();
        for (index, pre) in reference.families.iter().enumerate() {
            let family = Family::named(Some(pre)).unwrap();
            for case in &reference.cases {
                let mut words = Vec::new();
                for word in family.words.words(&case.text) {
                    let spelled: String = word
                        .bytes()
                        .map(|byte| letters[usize::from(byte)])
                        .collect();
                    let cut = family.letters.words(&spelled);
                    words.extend(cut.into_iter().map(str::to_owned));
                }
                let words = words.join(" ");
                assert_eq!(
                    hash(&words),
                    case.words[index],
                    "{pre} {:?}: {words}",
                    case.text
                );
            }
        }
    }

    #[test]
    fn published_expressions_cut_as_they_do() {
        let reference: Reference =
            serde_json::from_str(include_str!("../tests/data/words.json")).unwrap();
        assert_eq!(reference.published.len(), 7);
        for (index, regex) in reference.published.iter().enumerate() {
            assert!(backtracks(regex));
            let split = known_words(regex).unwrap().expect(regex);
            for case in &reference.cases {
                let words = split.words(&case.text).join("\u{1}");
                assert_eq!(hash(&words), case.published[index], "{regex} {words:?}");
            }
            assert!(known_words(&format!("x|{regex}")).unwrap().is_none());
        }
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
