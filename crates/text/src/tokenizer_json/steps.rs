//! The steps of `tokenizer.json`: normalizers, pre-tokenizers, decoders and post-processors.

use serde_json::Value;

use crate::TextError;
use crate::bytes::byte_alphabet;
use crate::error::shortened;
use crate::pipeline::{Behavior, Cutter, Normalizer, Prefix};
use crate::pre_tokenizer::{
    LookAhead, PUNCTUATION, WordPattern, WordSplit, backtracks, gpt2_words, known_words,
};
use crate::tokenizer::Spelling;

/// The most steps of one kind, and the longest expression in bytes. Published files have up to 7 and some 500.
const MAX_STEPS: usize = 32;
const MAX_REGEX_BYTES: usize = 4096;

/// The longest text that a normalizer puts in, in bytes.
const MAX_CONTENT_BYTES: usize = 16;

pub(super) fn unsupported(field: &'static str, value: impl AsRef<str>) -> TextError {
    TextError::UnsupportedStep {
        field,
        value: shortened(value.as_ref()),
    }
}

/// The steps of a part of the file: none, one, or those of a sequence.
fn steps<'a>(field: &'static str, value: &'a Value) -> Result<Vec<&'a Value>, TextError> {
    let mut steps = Vec::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        if value.is_null() {
            continue;
        }
        if kind(value) == "Sequence" {
            let parts = ["normalizers", "pretokenizers", "processors", "decoders"]
                .iter()
                .find_map(|key| value[*key].as_array());
            open.extend(parts.into_iter().flatten().rev());
        } else {
            steps.push(value);
        }
        if steps.len() > MAX_STEPS {
            return Err(unsupported(field, "of more than 32 steps"));
        }
    }
    Ok(steps)
}

fn kind(step: &Value) -> &str {
    step["type"].as_str().unwrap_or_default()
}

fn flag(step: &Value, name: &str, absent: bool) -> bool {
    step[name].as_bool().unwrap_or(absent)
}

/// The expression of a step: a literal text or one in the language of expressions.
fn pattern(field: &'static str, step: &Value) -> Result<String, TextError> {
    let pattern = &step["pattern"];
    let regex = match (pattern["String"].as_str(), pattern["Regex"].as_str()) {
        (Some(literal), _) => escaped(literal),
        (_, Some(regex)) => regex.to_owned(),
        _ => return Err(unsupported(field, pattern.to_string())),
    };
    if regex.is_empty() || regex.len() > MAX_REGEX_BYTES {
        return Err(unsupported(field, regex));
    }
    Ok(regex)
}

fn escaped(literal: &str) -> String {
    let mut regex = String::with_capacity(literal.len());
    for letter in literal.chars() {
        if letter.is_ascii_punctuation() {
            // A backslash alone would make some of them mean something.
            regex.push_str(&format!("\\x{:02X}", u32::from(letter)));
        } else {
            regex.push(letter);
        }
    }
    regex
}

/// An expression that is matched in linear time.
fn plain(field: &'static str, regex: &str) -> Result<WordPattern, TextError> {
    if backtracks(regex) {
        return Err(unsupported(field, regex));
    }
    WordPattern::new(regex, LookAhead::None)
}

pub(super) fn normalizers(value: &Value) -> Result<Vec<Normalizer>, TextError> {
    const FIELD: &str = "normalizer";
    let content = |value: &Value| match value.as_str() {
        Some(content) if content.len() <= MAX_CONTENT_BYTES => Ok(content.to_owned()),
        _ => Err(unsupported(FIELD, value.to_string())),
    };
    let mut out = Vec::new();
    for step in steps(FIELD, value)? {
        out.push(match kind(step) {
            "NFC" => Normalizer::Nfc,
            "NFD" => Normalizer::Nfd,
            "NFKC" => Normalizer::Nfkc,
            "NFKD" => Normalizer::Nfkd,
            "Lowercase" => Normalizer::Lowercase,
            "Prepend" => Normalizer::Prepend(content(&step["prepend"])?),
            "Replace" => {
                let content = content(&step["content"])?;
                match step["pattern"]["String"].as_str() {
                    Some("") => return Err(unsupported(FIELD, "Replace of nothing")),
                    Some(literal) => Normalizer::Replace(literal.to_owned(), content),
                    None => {
                        let pattern = plain(FIELD, &pattern(FIELD, step)?)?;
                        Normalizer::ReplaceMatches(pattern, content)
                    }
                }
            }
            other => return Err(unsupported(FIELD, other)),
        });
    }
    Ok(out)
}

/// The cutters, and whether all of them begin a word at a space that follows something else.
pub(super) fn cutters(value: &Value) -> Result<(Vec<Cutter>, bool), TextError> {
    const FIELD: &str = "pre_tokenizer";
    let mut out = Vec::new();
    let mut cuts_at_spaces = false;
    let mut all_known = true;
    let mut lengthened = false;
    for step in steps(FIELD, value)? {
        let name = kind(step);
        if matches!(name, "ByteLevel" | "Metaspace") {
            // Each makes a text longer: twice is no family's, and often enough would be too much.
            if lengthened {
                return Err(unsupported(FIELD, "with two of ByteLevel and Metaspace"));
            }
            lengthened = true;
        }
        match name {
            "ByteLevel" => {
                if flag(step, "add_prefix_space", true) {
                    all_known = false;
                    out.push(Cutter::PrefixSpace);
                }
                if flag(step, "use_regex", true) {
                    cuts_at_spaces = true;
                    out.push(Cutter::Words(gpt2_words()?));
                }
                out.push(Cutter::Letters(byte_alphabet().collect()));
            }
            "Digits" => {
                let regex = if flag(step, "individual_digits", false) {
                    r"\p{N}"
                } else {
                    r"\p{N}+"
                };
                out.push(Cutter::Words(WordSplit {
                    steps: vec![plain(FIELD, regex)?],
                }));
            }
            "Metaspace" => {
                all_known = false;
                let mut letters = step["replacement"].as_str().unwrap_or("\u{2581}").chars();
                let (Some(space), None) = (letters.next(), letters.next()) else {
                    return Err(unsupported(FIELD, step["replacement"].to_string()));
                };
                let prefix = match step["prepend_scheme"].as_str() {
                    Some("never") => Prefix::Never,
                    Some("first") => Prefix::First,
                    Some("always") => Prefix::Always,
                    Some(other) => return Err(unsupported(FIELD, other)),
                    None if flag(step, "add_prefix_space", true) => Prefix::Always,
                    None => Prefix::Never,
                };
                out.push(Cutter::Metaspace {
                    space,
                    prefix,
                    cut: flag(step, "split", true),
                });
            }
            "WhitespaceSplit" => {
                all_known = false;
                out.push(Cutter::Matches {
                    pattern: plain(FIELD, r"\s+")?,
                    invert: false,
                    behavior: Behavior::Removed,
                });
            }
            "Split" | "Punctuation" => {
                let regex = match name {
                    "Split" => pattern(FIELD, step)?,
                    _ => PUNCTUATION.to_owned(),
                };
                let invert = flag(step, "invert", false);
                let behavior = match step["behavior"].as_str() {
                    Some("Isolated") | None => Behavior::Isolated,
                    Some("Removed") => Behavior::Removed,
                    Some("MergedWithPrevious") => Behavior::WithPrevious,
                    Some("MergedWithNext") => Behavior::WithNext,
                    Some("Contiguous") => Behavior::Contiguous,
                    Some(other) => return Err(unsupported(FIELD, other)),
                };
                match known_words(&regex)? {
                    // Isolated, matches and what lies between are the same.
                    Some(words) if behavior == Behavior::Isolated => {
                        cuts_at_spaces = true;
                        out.push(Cutter::Words(words));
                    }
                    _ => {
                        all_known &= name == "Punctuation" || regex == r"\p{N}{1,3}";
                        out.push(Cutter::Matches {
                            pattern: plain(FIELD, &regex)?,
                            invert,
                            behavior,
                        });
                    }
                }
            }
            other => return Err(unsupported(FIELD, other)),
        }
    }
    Ok((out, cuts_at_spaces && all_known))
}

/// How tokens spell text, and whether decoding takes a space from the beginning.
pub(super) fn decoder(value: &Value) -> Result<(Spelling, bool), TextError> {
    const FIELD: &str = "decoder";
    let mut spelling = None;
    let mut strips = false;
    for step in steps(FIELD, value)? {
        match kind(step) {
            "ByteLevel" => spelling = Some(Spelling::Letters),
            "Metaspace" => {
                spelling = Some(Spelling::Pieces);
                strips = match step["prepend_scheme"].as_str() {
                    Some(scheme) => scheme != "never",
                    None => flag(step, "add_prefix_space", true),
                };
            }
            "Replace"
                if step["pattern"]["String"].as_str() == Some("\u{2581}")
                    && step["content"].as_str() == Some(" ") =>
            {
                spelling = Some(Spelling::Pieces);
            }
            "ByteFallback" | "Fuse" => {}
            "Strip"
                if step["content"].as_str() == Some(" ") && step["stop"].as_u64() == Some(0) =>
            {
                strips |= step["start"].as_u64() == Some(1);
            }
            other => return Err(unsupported(FIELD, other)),
        }
    }
    let spelling = spelling.ok_or_else(|| unsupported(FIELD, value.to_string()))?;
    Ok((spelling, strips))
}

/// The token that the file itself puts in front of a text. One that it puts behind is left out: a prompt is there to be continued.
pub(super) fn template_bos(value: &Value) -> Result<Option<u32>, TextError> {
    const FIELD: &str = "post_processor";
    let mut template = None;
    for step in steps(FIELD, value)? {
        match kind(step) {
            // Of offsets in the text alone.
            "ByteLevel" => {}
            "TemplateProcessing" if template.is_none() => template = Some(step),
            other => return Err(unsupported(FIELD, other)),
        }
    }
    let Some(template) = template else {
        return Ok(None);
    };
    let token = |part: &Value| {
        let name = part["SpecialToken"]["id"].as_str()?;
        let [id] = &template["special_tokens"][name]["ids"].as_array()?[..] else {
            return None;
        };
        u32::try_from(id.as_u64()?).ok()
    };
    let is_text = |part: &Value| part["Sequence"]["id"] == "A";
    let single = template["single"].as_array().map(Vec::as_slice);
    let (front, behind) = match single.unwrap_or_default() {
        [text] if is_text(text) => return Ok(None),
        [text, behind] if is_text(text) => (None, Some(behind)),
        [front, text] if is_text(text) => (Some(front), None),
        [front, text, behind] if is_text(text) => (Some(front), Some(behind)),
        _ => (None, Some(&Value::Null)),
    };
    if behind.is_some_and(|behind| token(behind).is_none()) {
        return Err(unsupported(FIELD, template["single"].to_string()));
    }
    match front {
        None => Ok(None),
        Some(front) => match token(front) {
            None => Err(unsupported(FIELD, template["single"].to_string())),
            id => Ok(id),
        },
    }
}
