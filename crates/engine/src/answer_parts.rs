//! Telling the parts of an answer apart: its reasoning, what it says, and the tools it calls.
//!
//! Models mark them in the text. What comes out depends on the text alone, however it was cut into tokens: text is held back only
//! while it could still become a mark, and a call until it is whole.

use foretoken_core::TokenId;
use foretoken_text::{TextError, Tokenizer};

use crate::request::parse_json;
use crate::response::{Piece, ToolCall};

/// Before reasoning.
pub(crate) const THINK_OPENS: &str = "<think>";
/// After it.
pub(crate) const THINK_CLOSES: &str = "</think>";
/// Before a call: a JSON object with `name` and `arguments`.
pub(crate) const TOOL_CALL_OPENS: &str = "<tool_call>";
/// After it.
const TOOL_CALL_CLOSES: &str = "</tool_call>";

/// Which marks an answer may have, and where it starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Reasoning, marked at the answer's start.
    pub(crate) reasoning: bool,
    /// The prompt has opened it.
    pub(crate) in_reasoning: bool,
    /// The prompt has said something after it.
    pub(crate) in_content: bool,
    /// Calls of tools.
    pub(crate) tool_calls: bool,
}

impl Marks {
    /// Marks that this vocabulary has as control tokens, which have no text of their own.
    pub(crate) fn without_text(
        self,
        tokenizer: &Tokenizer,
    ) -> Result<Vec<(TokenId, &'static str)>, TextError> {
        let mut found = Vec::new();
        for (wanted, spelling) in [
            (self.reasoning, THINK_OPENS),
            (self.reasoning, THINK_CLOSES),
            (self.tool_calls, TOOL_CALL_OPENS),
            (self.tool_calls, TOOL_CALL_CLOSES),
        ] {
            if wanted
                && let [token] = tokenizer.encode(spelling, true)?[..]
                && tokenizer.decode(&[token]).is_empty()
            {
                found.push((token, spelling));
            }
        }
        Ok(found)
    }
}

/// Takes an answer's text and puts it where it belongs.
#[derive(Debug)]
pub(crate) struct AnswerParts {
    reasoning: Reasoning,
    /// Of the text: what could still become a mark of reasoning.
    held: String,
    calls: Option<Calls>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reasoning {
    /// It may begin: there was white space only.
    Possible,
    Open,
    Over,
}

impl AnswerParts {
    pub(crate) fn new(marks: Marks) -> Self {
        Self {
            reasoning: match marks {
                Marks {
                    in_reasoning: true, ..
                } => Reasoning::Open,
                Marks {
                    reasoning: true,
                    in_content: false,
                    ..
                } => Reasoning::Possible,
                _ => Reasoning::Over,
            },
            held: String::new(),
            calls: marks.tool_calls.then(Calls::default),
        }
    }

    /// Whether what comes next is reasoning, as far as can be told.
    pub(crate) fn in_reasoning(&self) -> bool {
        self.reasoning == Reasoning::Open
    }

    /// Takes the text that follows.
    pub(crate) fn push(&mut self, text: &str, piece: &mut Piece) {
        if self.reasoning == Reasoning::Over {
            return self.say(text, piece);
        }
        self.held.push_str(text);
        if self.reasoning == Reasoning::Possible {
            let begun = self.held.trim_start();
            if let Some(rest) = begun.strip_prefix(THINK_OPENS) {
                self.held = rest.to_owned();
                self.reasoning = Reasoning::Open;
            } else if !THINK_OPENS.starts_with(begun) {
                return self.give_up_reasoning(piece);
            }
        }
        if self.reasoning == Reasoning::Open {
            if let Some(at) = self.held.find(THINK_CLOSES) {
                piece.reasoning.push_str(&self.held[..at]);
                self.held.drain(..at + THINK_CLOSES.len());
                self.give_up_reasoning(piece);
            } else {
                let kept = begun_at_end(&self.held, THINK_CLOSES);
                piece
                    .reasoning
                    .extend(self.held.drain(..self.held.len() - kept));
            }
        }
    }

    /// No text follows: what was held back is what it looks like.
    pub(crate) fn finish(&mut self, piece: &mut Piece) {
        match self.reasoning {
            Reasoning::Open => piece.reasoning.push_str(&std::mem::take(&mut self.held)),
            Reasoning::Possible | Reasoning::Over => self.give_up_reasoning(piece),
        }
        if let Some(calls) = &mut self.calls {
            calls.finish(piece);
        }
    }

    /// How many calls there were.
    pub(crate) fn calls(&self) -> u32 {
        self.calls.as_ref().map_or(0, |calls| calls.made)
    }

    fn give_up_reasoning(&mut self, piece: &mut Piece) {
        self.reasoning = Reasoning::Over;
        let held = std::mem::take(&mut self.held);
        self.say(&held, piece);
    }

    fn say(&mut self, text: &str, piece: &mut Piece) {
        match &mut self.calls {
            Some(calls) => calls.push(text, piece),
            None => piece.text.push_str(text),
        }
    }
}

/// Finds calls in what is said. White space before and between calls belongs to nobody.
#[derive(Debug, Default)]
struct Calls {
    made: u32,
    /// Between the marks of a call.
    inside: bool,
    /// Something was said since the last call.
    said: bool,
    /// White space in front of the call that is open.
    blank: String,
    held: String,
}

impl Calls {
    fn push(&mut self, text: &str, piece: &mut Piece) {
        self.held.push_str(text);
        loop {
            let mark = if self.inside {
                TOOL_CALL_CLOSES
            } else {
                TOOL_CALL_OPENS
            };
            let Some(at) = self.held.find(mark) else {
                break;
            };
            let after = self.held.split_off(at + mark.len());
            self.held.truncate(at);
            let before = std::mem::replace(&mut self.held, after);
            if self.inside {
                self.inside = false;
                self.call(&before, TOOL_CALL_CLOSES, piece);
            } else {
                self.inside = true;
                if !self.said && before.trim().is_empty() {
                    self.blank = before;
                } else {
                    piece.text.push_str(&before);
                }
            }
        }
        if !self.inside {
            let kept = begun_at_end(&self.held, TOOL_CALL_OPENS);
            let free = self.held.len() - kept;
            if self.said || !self.held[..free].trim().is_empty() {
                self.said = true;
                piece.text.extend(self.held.drain(..free));
            }
        }
    }

    fn finish(&mut self, piece: &mut Piece) {
        let held = std::mem::take(&mut self.held);
        if self.inside {
            self.call(&held, "", piece);
        } else if self.said || self.made == 0 || !held.trim().is_empty() {
            piece.text.push_str(&held);
        }
    }

    /// Takes what stood between the marks as a call, or else, with its marks, as text.
    fn call(&mut self, body: &str, closed_by: &str, piece: &mut Piece) {
        match parse(body) {
            Some((name, arguments)) => {
                self.said = false;
                piece.tool_calls.push(ToolCall {
                    number: self.made,
                    name,
                    arguments,
                });
                self.made += 1;
                self.blank.clear();
            }
            None => {
                self.said = true;
                let blank = std::mem::take(&mut self.blank);
                (piece.text).extend([&*blank, TOOL_CALL_OPENS, body, closed_by]);
            }
        }
    }
}

/// The name, and the arguments as JSON text.
fn parse(body: &str) -> Option<(String, String)> {
    let call = parse_json(body)?;
    let name = call.get("name")?.as_str()?.to_owned();
    let arguments = call.get("arguments").or_else(|| call.get("parameters"));
    let arguments = match arguments {
        None => "{}".to_owned(),
        Some(arguments) if arguments.is_object() => serde_json::to_string(arguments).ok()?,
        Some(_) => return None,
    };
    Some((name, arguments))
}

/// The length of the longest end of `text` that `mark` begins with and goes on from.
fn begun_at_end(text: &str, mark: &str) -> usize {
    (1..mark.len())
        .rev()
        .find(|len| text.ends_with(&mark[..*len]))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an answer's parts are, looked up in the whole text.
    fn naive(text: &str, marks: Marks) -> (String, String, Vec<String>) {
        let mut rest = text;
        let mut reasoning = "";
        let begun = text.trim_start().strip_prefix(THINK_OPENS);
        let possible = marks.reasoning && !marks.in_content;
        let open = if marks.in_reasoning {
            Some(text)
        } else {
            begun.filter(|_| possible)
        };
        if let Some(open) = open {
            (reasoning, rest) = open.split_once(THINK_CLOSES).unwrap_or((open, ""));
        }
        let (mut content, mut calls) = (String::new(), Vec::new());
        let mut said = false;
        let calls_in = |text: &str| {
            marks
                .tool_calls
                .then(|| text.find(TOOL_CALL_OPENS))
                .flatten()
        };
        while let Some(at) = calls_in(rest) {
            let (before, after) = (&rest[..at], &rest[at + TOOL_CALL_OPENS.len()..]);
            let (body, after, closed) = match after.split_once(TOOL_CALL_CLOSES) {
                Some((body, after)) => (body, after, TOOL_CALL_CLOSES),
                None => (after, "", ""),
            };
            said |= !before.trim().is_empty();
            let call = parse(body);
            if said || call.is_none() {
                content += before;
            }
            said = call.is_none();
            match call {
                Some((name, _)) => calls.push(name),
                None => content += &[TOOL_CALL_OPENS, body, closed].concat(),
            }
            rest = after;
        }
        if said || calls.is_empty() || !rest.trim().is_empty() {
            content += rest;
        }
        (reasoning.to_owned(), content, calls)
    }

    #[test]
    fn parts_do_not_depend_on_how_the_text_was_cut() {
        const WORDS: [&str; 12] = [
            "<think>",
            "</think>",
            "<tool_call>",
            "</tool_call>",
            "<tool_call>{\"name\": \"g\"}</tool_call>",
            r#"{"name": "f"}"#,
            r#"{"name": "é", "arguments": {"a": [1]}}"#,
            r#"{"name": 1}"#,
            "<t",
            "</",
            "\n",
            "é k",
        ];
        let mut state = 11_u64;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let (mut reasoned, mut called) = (0, 0);
        for round in 0..20_000 {
            let text: String = (0..random(9)).map(|_| WORDS[random(WORDS.len())]).collect();
            let marks = Marks {
                reasoning: round % 8 != 0,
                in_reasoning: round % 8 == 1,
                in_content: round % 8 == 2,
                tool_calls: round % 3 != 0,
            };
            let mut parts = AnswerParts::new(marks);
            let mut piece = Piece::default();
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let cut = rest
                    .char_indices()
                    .nth(1 + random(6))
                    .map_or(rest.len(), |(at, _)| at);
                parts.push(&rest[..cut], &mut piece);
                rest = &rest[cut..];
            }
            parts.finish(&mut piece);
            let calls: Vec<String> = piece.tool_calls.iter().map(|c| c.name.clone()).collect();
            assert_eq!(parts.calls() as usize, calls.len());
            assert!(
                piece
                    .tool_calls
                    .iter()
                    .zip(0..)
                    .all(|(call, n)| call.number == n)
            );
            reasoned += usize::from(!piece.reasoning.is_empty());
            called += calls.len();
            let found = (piece.reasoning, piece.text, calls);
            assert_eq!(found, naive(&text, marks), "{text:?} {marks:?}");
        }
        assert!(reasoned > 1000 && called > 1000, "{reasoned} {called}");
    }

    #[test]
    fn text_is_held_back_only_while_it_could_become_a_mark() {
        let marks = Marks {
            reasoning: true,
            tool_calls: true,
            ..Marks::default()
        };
        let mut parts = AnswerParts::new(marks);
        let mut piece = Piece::default();
        for (text, reasoning, content) in [
            ("<thi", "", ""),
            ("nk>a</", "a", ""),
            ("b </think", "a</b ", ""),
            (">c<tool", "a</b ", "c"),
            ("s>", "a</b ", "c<tools>"),
        ] {
            parts.push(text, &mut piece);
            assert_eq!(
                (&*piece.reasoning, &*piece.text),
                (reasoning, content),
                "{text:?}"
            );
        }
    }
}
