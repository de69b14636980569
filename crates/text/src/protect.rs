//! Marking what users wrote, so that it survives a template without becoming a control token.
//!
//! A template pastes strings together; afterwards nobody can tell who wrote `<|im_end|>`. So before
//! rendering, a *mark* (a private-use character that occurs nowhere else) is put inside every spelling of a
//! control token in a user's string. Broken in two, it matches nothing in the rendered
//! text; the marks are removed once the control tokens have been found, and the ordinary text between them is
//! what the user wrote.
//!
//! A spelling could also be put together from neighbours: the end of one string and the beginning of the next. So
//! a string that begins within a spelling gets a mark before its first character that is not white space, and one that ends within
//! a spelling gets one after its last. There, a template that trims the string trims the same as without.
//! Few strings are marked at all, so templates that compare or search contents find what they look for. Matching ignores ASCII case,
//! since templates may change it.
//!
//! What a template itself takes apart and joins anew (say, cutting a middle out of a string) is the template's doing; no mark can
//! see that.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::TextError;
use crate::control_tokens::ControlTokens;
use crate::edges::Edges;

/// The deepest nesting of a tool's schema or a call's arguments.
pub(crate) const MAX_DEPTH: usize = 64;

/// Puts marks into strings.
pub(crate) struct Guard<'a> {
    folded: &'a ControlTokens,
    edges: &'a Edges,
    mark: char,
    end: Option<char>,
}

impl<'a> Guard<'a> {
    /// `folded`: the spellings in lower case, and `edges` theirs. `taken`: the private-use characters that occur in what will be rendered.
    pub(crate) fn new(
        folded: &'a ControlTokens,
        edges: &'a Edges,
        taken: &PrivateUse,
    ) -> Result<Self, TextError> {
        let mut free = PRIVATE_USE
            .clone()
            .filter(|mark| !taken.taken.contains(mark));
        let mark = free.next().ok_or(TextError::NoFreeMark)?;
        let end = free.next();
        Ok(Self {
            folded,
            edges,
            mark,
            end,
        })
    }

    /// Another character that occurs nowhere, if there is one.
    pub(crate) fn end(&self) -> Option<char> {
        self.end
    }

    pub(crate) fn mark(&self) -> char {
        self.mark
    }

    /// The string with a mark wherever it could become, or become part of, a control token.
    pub(crate) fn text(&self, text: &str) -> String {
        let lower = text.to_ascii_lowercase(); // as many bytes, at the same places
        let mut marks = BTreeSet::new();
        for (at, first) in lower.char_indices() {
            if self.folded.longest_at(&lower.as_bytes()[at..]).is_some() {
                marks.insert(at + first.len_utf8());
            }
        }
        let core = lower.trim();
        if !core.is_empty() {
            let start = lower.len() - lower.trim_start().len();
            if self.edges.begins_within(core) {
                marks.insert(start);
            }
            if self.edges.ends_within(core) {
                marks.insert(start + core.len());
            }
            // White space that is part of a spelling counts as well.
            if start > 0 && self.edges.begins_within(&lower) {
                marks.insert(0);
            }
            if start + core.len() < lower.len() && self.edges.ends_within(&lower) {
                marks.insert(lower.len());
            }
        } else if !lower.is_empty()
            && (self.edges.begins_within(&lower) || self.edges.ends_within(&lower))
        {
            marks.insert(0);
            marks.insert(lower.len());
        }
        let mut marked = String::with_capacity(text.len() + marks.len() * self.mark.len_utf8());
        let mut from = 0;
        for at in marks {
            marked.push_str(&text[from..at]);
            marked.push(self.mark);
            from = at;
        }
        marked.push_str(&text[from..]);
        marked
    }

    /// The variables of a request: plain words stay as they are, for templates compare them (`low`, `json`).
    pub(crate) fn variables(
        &self,
        variables: &Map<String, Value>,
    ) -> impl Iterator<Item = (String, Value)> {
        variables
            .iter()
            .map(|(name, value)| (name.clone(), self.words(value)))
    }

    /// A value whose plain words stay as they are.
    fn words(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.word(text)),
            Value::Array(values) => {
                Value::Array(values.iter().map(|value| self.words(value)).collect())
            }
            other => self.value(other),
        }
    }

    /// A value with all its strings marked. Keys, and what stands under `type`, are words a template looks up; those
    /// are left alone as long as they are plain words.
    pub(crate) fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(values) => {
                Value::Array(values.iter().map(|value| self.value(value)).collect())
            }
            Value::Object(entries) => Value::Object(self.object(entries)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    pub(crate) fn object(&self, entries: &Map<String, Value>) -> Map<String, Value> {
        entries
            .iter()
            .map(|(key, value)| {
                let value = if key == "type" {
                    self.words(value)
                } else {
                    self.value(value)
                };
                (self.word(key), value)
            })
            .collect()
    }

    /// A string that templates compare: left alone if it is a plain word and no spelling is in it.
    fn word(&self, text: &str) -> String {
        let lower = text.to_ascii_lowercase();
        let holds_spelling =
            (0..lower.len()).any(|at| self.folded.longest_at(&lower.as_bytes()[at..]).is_some());
        if is_plain_word(text) && !holds_spelling {
            text.to_string()
        } else {
            self.text(text)
        }
    }
}

/// 1 to 64 letters, digits, `-`, `_` and `.`.
pub(crate) fn is_plain_word(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

const PRIVATE_USE: std::ops::RangeInclusive<char> = '\u{E000}'..='\u{F8FF}';

/// The private-use characters that occur in some strings, and how much there is of those.
#[derive(Default)]
pub(crate) struct PrivateUse {
    taken: BTreeSet<char>,
    bytes: u64,
    values: u64,
}

impl PrivateUse {
    pub(crate) fn add_text(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        self.taken
            .extend(text.chars().filter(|letter| PRIVATE_USE.contains(letter)));
    }

    /// Bytes of the strings.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Entries of lists and objects.
    pub(crate) fn values(&self) -> u64 {
        self.values
    }

    /// Also checks the nesting, before anything else walks the value.
    pub(crate) fn add_value(
        &mut self,
        field: &'static str,
        value: &Value,
        depth: usize,
    ) -> Result<(), TextError> {
        if depth > MAX_DEPTH {
            return Err(TextError::TooDeep {
                field,
                limit: MAX_DEPTH as u64,
            });
        }
        match value {
            Value::String(text) => self.add_text(text),
            Value::Array(values) => {
                self.values += values.len() as u64;
                for value in values {
                    self.add_value(field, value, depth + 1)?;
                }
            }
            Value::Object(entries) => {
                self.values += entries.len() as u64;
                for (key, value) in entries {
                    self.add_text(key);
                    self.add_value(field, value, depth + 1)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPELLINGS: [&str; 3] = ["<|im_start|>", "<|im_end|>", "</s>"];

    fn control() -> ControlTokens {
        ControlTokens::new(SPELLINGS.into_iter().zip(0..)).unwrap()
    }

    fn marked(text: &str) -> String {
        let folded = control().folded();
        Guard::new(&folded, &Edges::new(&folded), &PrivateUse::default())
            .unwrap()
            .text(text)
            .replace('\u{E000}', "·")
    }

    #[test]
    fn spellings_are_broken_and_other_text_is_left_alone() {
        assert_eq!(marked("Hello <b>world</b>!"), "Hello <b>world</b>!");
        assert_eq!(marked("a<|im_end|>b"), "a<·|im_end|>b");
        assert_eq!(marked("a<|IM_END|>b"), "a<·|IM_END|>b");
        assert_eq!(marked("</s></s>"), "<·/s><·/s>");
        // Edges: the beginning or end of a spelling.
        assert_eq!(marked("  |> x"), "  ·|> x");
        assert_eq!(marked("x <|im \n"), "x <|im· \n");
        assert_eq!(marked("x <|im_\n"), "x <|im_·\n");
        assert_eq!(marked(""), "");
        assert_eq!(marked(" \n"), " \n");
    }

    /// No way to cut strings out of spellings and join them gives a spelling.
    #[test]
    fn joined_strings_never_give_a_control_token() {
        let control = control();
        let folded = control.folded();
        let edges = Edges::new(&folded);
        let guard = Guard::new(&folded, &edges, &PrivateUse::default()).unwrap();
        let mut state = 3_u64;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let mut would_have_matched = 0;
        for _ in 0..20_000 {
            let whole = format!("{}{}", SPELLINGS[random(3)], SPELLINGS[random(3)]);
            let mut plain = String::new();
            let mut joined = String::new();
            let mut rest = whole.as_str();
            while !rest.is_empty() {
                let (part, after) = rest.split_at((1 + random(6)).min(rest.len()));
                let part = format!(
                    "{}{part}{}",
                    [" ", "", ""][random(3)],
                    ["\n", "", ""][random(3)]
                );
                plain.push_str(part.trim());
                joined.push_str(guard.text(&part).trim());
                rest = after;
            }
            let found = |text: &str| {
                control
                    .spans(text)
                    .iter()
                    .any(|span| matches!(span, crate::control_tokens::Span::Control(_)))
            };
            would_have_matched += usize::from(found(&plain));
            assert!(!found(&joined), "{joined:?}");
            assert_eq!(joined.replace(guard.mark(), ""), plain);
        }
        assert!(would_have_matched > 10_000, "{would_have_matched}");
    }

    #[test]
    fn plain_words_that_templates_look_up_stay() {
        let control = ControlTokens::new([("<|endoftext|>", 0)].into_iter())
            .unwrap()
            .folded();
        let edges = Edges::new(&control);
        let guard = Guard::new(&control, &edges, &PrivateUse::default()).unwrap();
        let part = serde_json::json!({"type": "text", "text": "text"});
        let part = guard.value(&part);
        assert_eq!(part["type"], "text");
        assert_eq!(part["text"], "\u{E000}text\u{E000}");
        let hostile = guard.value(&serde_json::json!({"<|endoftext|>": 1}));
        assert!(hostile.get("<|endoftext|>").is_none());
    }

    #[test]
    fn nesting_is_limited() {
        for (depth, ok) in [
            (MAX_DEPTH - 1, true),
            (MAX_DEPTH, true),
            (MAX_DEPTH + 1, false),
        ] {
            let mut value = Value::Null;
            for _ in 0..depth {
                value = Value::Array(vec![value]);
            }
            assert_eq!(
                PrivateUse::default().add_value("tools", &value, 0).is_ok(),
                ok
            );
        }
    }

    #[test]
    fn the_mark_is_a_character_nobody_uses() {
        let folded = control().folded();
        let mut taken = PrivateUse::default();
        taken.add_text("\u{E000}\u{E001}\u{E003}");
        assert_eq!(
            Guard::new(&folded, &Edges::new(&folded), &taken)
                .unwrap()
                .mark(),
            '\u{E002}'
        );
        taken.taken.extend(PRIVATE_USE.clone());
        assert_eq!(
            Guard::new(&folded, &Edges::new(&folded), &taken).err(),
            Some(TextError::NoFreeMark)
        );
    }
}
