//! Chat templates: Jinja source from the model file, rendered within limits.

use std::fmt;
use std::io;

use foretoken_core::TokenId;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, Serde, Value as JinjaValue};
use minijinja::{Environment, Error, ErrorKind, State};
use serde_json::{Map, Value};

use crate::TextError;
use crate::control_tokens::{ControlTokens, Span};
use crate::edges::Edges;
use crate::error::shortened;
use crate::json::{JsonStyle, python_json, with_sorted_keys};
use crate::open_end::OpenEnd;
use crate::protect::{Guard, PrivateUse, is_plain_word};
use crate::python_methods;
use crate::strftime::strftime;
use crate::template_scan;

/// The longest template source, in bytes.
pub const MAX_TEMPLATE_BYTES: usize = 256 * 1024;
/// How much work one rendering may do at most, in instructions of the template engine (or 64 bytes of text made).
pub const TEMPLATE_FUEL: u64 = 1_000_000;
/// What a rendering of few messages may do. Real templates use some hundreds of instructions before the first message
/// and at most some two hundred a message. The bound also bounds how deeply a loop can wrap a value in lists, which the
/// engine drops and shows by recursion.
const BASE_FUEL: u64 = 10_000;
/// What each message (and tool, and document) adds to that.
const FUEL_PER_MESSAGE: u64 = 200;
/// What each tool adds for each message: some templates show the tools again wherever the last question was asked before.
const FUEL_PER_TOOL_AND_MESSAGE: u64 = 100;
/// What each value within them adds: templates that describe a tool in words walk its schema.
const FUEL_PER_VALUE: u64 = 50;
/// Bytes of messages that add one more: a template copies what it is given, several times.
const BYTES_PER_FUEL: u64 = 8;
/// How deep macros may call one another; a wasm stack has one megabyte.
const MAX_RECURSION: usize = 100;
/// Rendered bytes for each token of context. Ordinary text has three to six bytes a token (English about 4.6), so this
/// refuses nothing that could fit, and a prompt that renders within it but is too long is refused by its token count.
const BYTES_PER_TOKEN: u64 = 16;
const NAME: &str = "chat";

/// One message of a chat.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ChatMessage {
    /// `system`, `user`, `assistant`, `tool`, or what else the template knows: 1 to 64 letters, digits, `-`, `_`, `.`.
    pub role: String,
    /// What it says: a string, a list of parts (`{"type": "text", "text": …}`), or null, which the template sees as absent.
    #[serde(default)]
    pub content: Value,
    /// Who says it, where several share a role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Further fields that templates read, such as `tool_calls` or `tool_call_id`.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

/// What a rendering depends on beside the messages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RenderOptions {
    /// Ends the prompt with the header of the assistant's turn.
    pub add_generation_prompt: bool,
    /// Leaves the final message open, so that an answer continues it: the prompt ends where its content does.
    pub continue_final_message: bool,
    /// Tool descriptions; the template sees `none` if there are none.
    pub tools: Vec<Value>,
    /// Documents to answer from; the template sees `none` if there are none.
    pub documents: Vec<Value>,
    /// Further variables of the template, such as `enable_thinking`. They do not replace the ones above.
    pub variables: Map<String, Value>,
    /// The context's length in tokens: at most 16 bytes are rendered for each.
    pub context: u32,
    /// Seconds since 1970, UTC, for templates that state the date. Without it `strftime_now` is undefined.
    pub now: Option<i64>,
}

/// A piece of a rendered chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Ordinary text, whatever it spells.
    Text(String),
    /// A control token that the template wrote.
    Control(TokenId),
}

/// A rendered chat, in which what the template wrote and what users wrote are still told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    text: String,
    segments: Vec<Segment>,
}

impl Rendered {
    /// The prompt as text. Encoding this text with special tokens allowed would let users write control tokens; use
    /// [`Tokenizer::encode_rendered`](crate::Tokenizer::encode_rendered).
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The prompt in pieces.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }
}

/// A parsed template with the control tokens of its vocabulary.
///
/// The environment is the one Hugging Face gives to templates: blocks are trimmed on both sides, `break` and `continue` work, Python's
/// string and dict methods exist, `tojson` writes what Python writes, and `raise_exception` and `strftime_now` are there.
///
/// Source, work, output, recursion and the length of an expression are limited.
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    bos: String,
    eos: String,
    control: ControlTokens,
    folded: ControlTokens,
    edges: Edges,
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl ChatTemplate {
    /// `bos` and `eos`: the spellings the template sees as `bos_token` and `eos_token`.
    pub(crate) fn new(
        source: String,
        bos: &str,
        eos: &str,
        control: &ControlTokens,
    ) -> Result<Self, TextError> {
        if source.len() > MAX_TEMPLATE_BYTES {
            return Err(TextError::TemplateTooLong {
                bytes: source.len() as u64,
                limit: MAX_TEMPLATE_BYTES as u64,
            });
        }
        template_scan::check(&source).map_err(|message| TextError::TemplateSyntax { message })?;
        let mut environment = Environment::new();
        let mut syntax = SyntaxConfig::builder();
        syntax.trim_blocks(true).lstrip_blocks(true);
        environment.set_syntax(syntax.build().map_err(|error| TextError::TemplateFailed {
            message: error.to_string(),
        })?);
        environment.set_recursion_limit(MAX_RECURSION);
        // Nothing here is HTML.
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_unknown_method_callback(python_methods::call);
        environment.add_function("raise_exception", raise_exception);
        environment.add_test("iterable", is_iterable);
        // Jinja knows one end of line.
        let text = source.replace("\r\n", "\n").replace('\r', "\n");
        let text = without_generation_blocks(&text);
        let environment = bounded(move || {
            environment
                .add_template_owned(NAME, text)
                .map(|()| environment)
                .map_err(|error| TextError::TemplateSyntax {
                    message: error.to_string(),
                })
        })??;
        let folded = control.folded();
        Ok(Self {
            environment,
            source,
            bos: bos.to_string(),
            eos: eos.to_string(),
            control: control.multi_character(),
            edges: Edges::new(&folded),
            folded,
        })
    }

    /// The template's source, as in the model file.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it walks the parts of a content that is a list; other templates want one string.
    pub fn takes_parts(&self) -> bool {
        template_scan::loops_over(&self.source, "content")
    }

    /// Renders a chat. The template's own refusal comes back as [`TextError::TemplateRaised`].
    pub fn render(
        &self,
        messages: &[ChatMessage],
        options: &RenderOptions,
    ) -> Result<Rendered, TextError> {
        let taken = self.private_use(messages, options)?;
        let entries = (messages.len() + options.tools.len() + options.documents.len()) as u64;
        let pairs = messages.len() as u64 * options.tools.len() as u64;
        let fuel = BASE_FUEL
            + FUEL_PER_MESSAGE * entries
            + FUEL_PER_TOOL_AND_MESSAGE * pairs
            + FUEL_PER_VALUE * taken.values()
            + taken.bytes() / BYTES_PER_FUEL;
        let fuel = fuel.min(TEMPLATE_FUEL);
        let guard = Guard::new(&self.folded, &self.edges, &taken)?;
        let mut messages: Vec<Value> = messages
            .iter()
            .map(|message| guarded_message(&guard, message))
            .collect();
        let open_end = match messages.last_mut() {
            Some(last) if options.continue_final_message => Some(OpenEnd::put(last, &guard)?),
            None if options.continue_final_message => return Err(OpenEnd::absent()),
            _ => None,
        };
        let list = |values: &[Value]| match values {
            [] => Value::Null,
            values => Value::Array(values.iter().map(|value| guard.value(value)).collect()),
        };
        let mut context: Vec<(String, JinjaValue)> = (guard.variables(&options.variables))
            .map(|(name, value)| (name, JinjaValue::from(Serde(value))))
            .collect();
        context.extend(
            [
                ("messages", JinjaValue::from(Serde(messages))),
                ("tools", JinjaValue::from(Serde(list(&options.tools)))),
                (
                    "documents",
                    JinjaValue::from(Serde(list(&options.documents))),
                ),
                ("bos_token", JinjaValue::from(self.bos.as_str())),
                ("eos_token", JinjaValue::from(self.eos.as_str())),
                (
                    "add_generation_prompt",
                    JinjaValue::from(options.add_generation_prompt),
                ),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        if let Some(now) = options.now {
            context.push((
                "strftime_now".to_owned(),
                JinjaValue::from_function(move |format: &str| {
                    strftime(format, now).ok_or_else(|| {
                        Error::new(
                            ErrorKind::InvalidOperation,
                            format!("strftime_now: the format {format:?} is not known"),
                        )
                    })
                }),
            ));
        }

        let limit = u64::from(options.context) * BYTES_PER_TOKEN;
        let mut output = Limited {
            bytes: Vec::new(),
            left: limit,
            mark: guard.mark(),
            full: false,
        };
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(fuel));
        let mark = guard.mark();
        environment.add_filter(
            "tojson",
            move |state: &State, value: &JinjaValue, given: Rest<JinjaValue>, named: Kwargs| {
                tojson(state, value, &given, &named, mark)
            },
        );
        let (output, outcome) = bounded(move || {
            let outcome = environment.get_template(NAME).and_then(|template| {
                template
                    .render_captured_to(JinjaValue::from_pairs(context), &mut output)
                    .map(|_| ())
            });
            (output, outcome)
        })?;
        if output.full {
            return Err(TextError::RenderedTooLong { limit });
        }
        outcome.map_err(|error| typed(&error, fuel))?;
        // The template engine writes UTF-8 only, so nothing is replaced.
        let marked = String::from_utf8_lossy(&output.bytes);
        let marked = match &open_end {
            Some(end) => end.cut(&marked, mark)?,
            None => &marked,
        };
        Ok(self.told_apart(marked, mark))
    }

    /// The private-use characters in all that is rendered; checks roles and nesting on the way.
    fn private_use(
        &self,
        messages: &[ChatMessage],
        options: &RenderOptions,
    ) -> Result<PrivateUse, TextError> {
        let mut taken = PrivateUse::default();
        taken.add_text(&self.source);
        taken.add_text(&self.bos);
        taken.add_text(&self.eos);
        for spelling in self.control.spellings() {
            taken.add_text(spelling);
        }
        for (index, message) in messages.iter().enumerate() {
            // Templates build control tokens from roles: '<|' + role + '|>'.
            if !is_plain_word(&message.role) {
                return Err(TextError::InvalidRole {
                    index: index as u64,
                    role: shortened(&message.role),
                });
            }
            taken.add_value("messages", &message.content, 0)?;
            taken.add_text(message.name.as_deref().unwrap_or_default());
            for (key, value) in &message.fields {
                taken.add_text(key);
                taken.add_value("messages", value, 0)?;
            }
        }
        for tool in &options.tools {
            taken.add_value("tools", tool, 0)?;
        }
        for document in &options.documents {
            taken.add_value("documents", document, 0)?;
        }
        for (name, value) in &options.variables {
            taken.add_text(name);
            taken.add_value("chat_template_kwargs", value, 0)?;
        }
        Ok(taken)
    }

    /// Finds the control tokens while the marks still stand, then takes the marks out.
    fn told_apart(&self, marked: &str, mark: char) -> Rendered {
        let segments = self
            .control
            .spans(marked)
            .into_iter()
            .map(|span| match span {
                Span::Ordinary(text) => Segment::Text(text.replace(mark, "")),
                Span::Control(id) => Segment::Control(id),
            })
            .collect();
        Rendered {
            text: marked.replace(mark, ""),
            segments,
        }
    }
}

/// A message as the template sees it, with all of the user's strings marked; fields of these names are the user's too.
fn guarded_message(guard: &Guard<'_>, message: &ChatMessage) -> Value {
    let mut seen = Map::new();
    seen.insert("role".into(), Value::String(message.role.clone()));
    if !message.content.is_null() {
        seen.insert("content".into(), guard.value(&message.content));
    }
    if let Some(name) = &message.name {
        seen.insert("name".into(), Value::String(guard.text(name)));
    }
    for (key, value) in guard.object(&message.fields) {
        seen.entry(key).or_insert(value);
    }
    Value::Object(seen)
}

/// Takes `{% generation %}` and `{% endgeneration %}` as blocks that are always rendered; they mark what to train on.
fn without_generation_blocks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(open) = rest.find("{%") {
        let (before, tag) = rest.split_at(open);
        out.push_str(before);
        let Some(close) = tag.find("%}") else {
            rest = tag;
            break;
        };
        let (tag, after) = tag.split_at(close + 2);
        let name = tag.trim_start_matches("{%").trim_end_matches("%}");
        match name.trim_matches(['-', '+']).trim() {
            "generation" => out.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endif")),
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Runs the template engine where it can do no harm: on a thread with a large stack, for a bounded time. A rendering that is
/// given up goes on alone until it ends. In a browser there is neither; the worker that runs this can be ended instead.
#[cfg(not(target_arch = "wasm32"))]
fn bounded<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, TextError> {
    const STACK_BYTES: usize = 64 << 20;
    const SECONDS: u64 = 10;
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::Builder::new()
        .name("chat template".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            // Nobody listens any more where the time was up.
            let _ = sender.send(work());
        })
        .map_err(|error| TextError::TemplateFailed {
            message: format!("no thread for it: {error}"),
        })?;
    receiver
        .recv_timeout(std::time::Duration::from_secs(SECONDS))
        .map_err(|_| TextError::TemplateTime { seconds: SECONDS })
}

#[cfg(target_arch = "wasm32")]
fn bounded<T>(work: impl FnOnce() -> T) -> Result<T, TextError> {
    Ok(work())
}

/// Output that stops taking bytes at a limit. Marks are not counted: they are taken out again.
struct Limited {
    bytes: Vec<u8>,
    left: u64,
    mark: char,
    full: bool,
}

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The engine writes whole strings, so a mark is never cut in two.
        let mut buffer = [0; 4];
        let mark = self.mark.encode_utf8(&mut buffer).as_bytes();
        let marks = bytes
            .windows(mark.len())
            .filter(|window| *window == mark)
            .count();
        let counted = (bytes.len() - marks * mark.len()) as u64;
        let Some(left) = self.left.checked_sub(counted) else {
            self.full = true;
            return Err(io::Error::other("the rendered chat is too long"));
        };
        self.left = left;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the template said, kept apart from what the engine says.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

/// As in Python, where `none` is not and an undefined value is.
fn is_iterable(value: &JinjaValue) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

fn raise_exception(message: String) -> Result<JinjaValue, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Raised(message)))
}

/// `tojson(value, ensure_ascii=false, indent=none, separators=none, sort_keys=false)` as Python writes it. The mark is no
/// character of the value's, so it is not escaped.
fn tojson(
    state: &State,
    value: &JinjaValue,
    given: &[JinjaValue],
    named: &Kwargs,
    mark: char,
) -> Result<String, Error> {
    let failed = |error: serde_json::Error| {
        Error::new(ErrorKind::InvalidOperation, "cannot write as JSON").with_source(error)
    };
    let refused = |what| Error::new(ErrorKind::InvalidOperation, format!("tojson: {what}"));
    if value.is_undefined() {
        return Err(refused("the value is undefined"));
    }
    let argument = |at: usize, name| -> Result<Option<JinjaValue>, Error> {
        let value = match given.get(at) {
            Some(value) => Some(value.clone()),
            None => named.get::<Option<JinjaValue>>(name)?,
        };
        Ok(value.filter(|value| !(value.is_none() || value.is_undefined())))
    };
    let is_true = |value: Option<JinjaValue>| value.is_some_and(|value| value.is_true());
    let escapes = is_true(argument(0, "ensure_ascii")?);
    let indent = match argument(1, "indent")?.map(|indent| indent.as_usize()) {
        None => None,
        Some(Some(indent)) if indent <= 16 => Some(indent),
        Some(_) => return Err(refused("indent is at most 16")),
    };
    let separator = |pair: &JinjaValue, at| -> Result<String, Error> {
        let separator = pair.get_item_by_index(at)?;
        let text = separator.as_str().filter(|text| text.len() <= 16);
        text.map(str::to_owned)
            .ok_or_else(|| refused("separators are two strings of at most 16 bytes"))
    };
    let separators = match argument(2, "separators")? {
        Some(pair) => Some((separator(&pair, 0)?, separator(&pair, 1)?)),
        None => None,
    };
    let sorted = is_true(argument(3, "sort_keys")?);
    named.assert_all_used()?;
    let style = JsonStyle {
        indent,
        separators,
        escaped_but: escapes.then_some(mark),
    };
    let mut value = serde_json::to_value(value).map_err(failed)?;
    if sorted {
        value = with_sorted_keys(value);
    }
    let text = python_json(&value, &style).map_err(failed)?;
    state.consume_fuel(u64::try_from(text.len() / 64).unwrap_or(u64::MAX))?;
    Ok(text)
}

fn typed(error: &Error, fuel: u64) -> TextError {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = source {
        if let Some(Raised(message)) = cause.downcast_ref::<Raised>() {
            return TextError::TemplateRaised {
                message: message.clone(),
            };
        }
        let out_of_fuel = cause
            .downcast_ref::<Error>()
            .is_some_and(|error| error.kind() == ErrorKind::OutOfFuel);
        if out_of_fuel {
            return TextError::TemplateFuel { fuel };
        }
        source = cause.source();
    }
    TextError::TemplateFailed {
        message: error.to_string(),
    }
}
