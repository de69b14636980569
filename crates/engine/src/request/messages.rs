//! `messages` of a chat completion.

use foretoken_text::ChatMessage;
use serde_json::{Map, Value};

use super::fields::{Fields, invalid, kind, list, text};
use super::parse_json;
use super::tools::called_function;
use crate::Error;

/// The most messages of a request.
pub const MAX_MESSAGES: usize = 2048;

/// Reads them, as templates know them: calls of tools have their arguments as objects.
pub(super) fn messages(value: &Value) -> Result<Vec<ChatMessage>, Error> {
    let values = list(value, "messages")?;
    if values.is_empty() || values.len() > MAX_MESSAGES {
        let found = values.len();
        return Err(invalid(
            "messages",
            format!("`messages` has {found} entries, outside 1..={MAX_MESSAGES}"),
        ));
    }
    values
        .iter()
        .enumerate()
        .map(|(i, value)| message(value, &format!("messages[{i}]")))
        .collect()
}

fn message(value: &Value, path: &str) -> Result<ChatMessage, Error> {
    let mut fields = Fields::new(value, path)?;
    let name = fields.name("role");
    let role = text(fields.required("role")?, &name)?;
    let mut more = Map::new();
    match role {
        "system" | "developer" | "user" => {}
        "assistant" => assistant(&mut fields, &mut more)?,
        "tool" => {
            if let Some(id) = fields.string("tool_call_id")? {
                more.insert("tool_call_id".into(), id.into());
            }
        }
        other => {
            let other: String = other.chars().take(64).collect();
            return Err(invalid(
                &name,
                format!(
                    "`{name}` is {other:?}; system, developer, user, assistant and tool are taken"
                ),
            ));
        }
    }
    let name = fields.name("content");
    let content = match fields.optional("content") {
        // Who only calls tools says nothing.
        None if more.contains_key("tool_calls") => "".into(),
        _ => content(fields.required("content")?, &name)?,
    };
    let named = fields.string("name")?.map(str::to_owned);
    fields.finish()?;
    Ok(ChatMessage {
        role: role.to_owned(),
        content,
        name: named,
        fields: more,
    })
}

/// What assistants' messages have beside their content: as this engine and OpenAI's API answer them, so that an answer can
/// be sent back as it came.
fn assistant(fields: &mut Fields<'_>, more: &mut Map<String, Value>) -> Result<(), Error> {
    let name = fields.name("tool_calls");
    if let Some(value) = fields.optional("tool_calls") {
        let calls = list(value, &name)?;
        let calls: Vec<Value> = calls
            .iter()
            .enumerate()
            .map(|(i, call)| tool_call(call, &format!("{name}[{i}]")))
            .collect::<Result<_, _>>()?;
        if !calls.is_empty() {
            more.insert("tool_calls".into(), calls.into());
        }
    }
    // vLLM's older and newer name of the same. Templates read the older one, some (gpt-oss) `thinking`.
    let older = fields.string("reasoning_content")?;
    let newer = fields.string("reasoning")?;
    if let Some(newer) = newer {
        more.insert("reasoning".into(), newer.into());
    }
    if let Some(reasoning) = older.or(newer) {
        more.insert("reasoning_content".into(), reasoning.into());
        more.insert("thinking".into(), reasoning.into());
    }
    for field in ["refusal", "audio", "function_call"] {
        if let Some(value) = fields.optional(field) {
            let name = fields.name(field);
            return Err(invalid(
                &name,
                format!(
                    "`{name}` is {}, which no template is shown: leave it out",
                    kind(value)
                ),
            ));
        }
    }
    Ok(())
}

/// A call that the assistant made. Arguments come as JSON text; templates write the object.
fn tool_call(value: &Value, path: &str) -> Result<Value, Error> {
    let mut fields = Fields::new(value, path)?;
    fields.raw("index");
    let id = fields.string("id")?.map(str::to_owned);
    let (mut function, name) = called_function(&mut fields)?;
    let function_name = text(function.required("name")?, &function.name("name"))?;
    let arguments_name = function.name("arguments");
    let arguments = match function.optional("arguments") {
        None => Map::new(),
        Some(Value::Object(arguments)) => arguments.clone(),
        Some(Value::String(text)) if text.trim().is_empty() => Map::new(),
        Some(value) => {
            let text = text(value, &arguments_name)?;
            match parse_json(text) {
                Some(Value::Object(arguments)) => arguments,
                _ => {
                    let shown: String = text.chars().take(64).collect();
                    return Err(invalid(
                        &arguments_name,
                        format!("`{arguments_name}` is {shown:?}, which is no JSON object"),
                    ));
                }
            }
        }
    };
    function.finish()?;
    fields.finish()?;
    let mut call = Map::new();
    if let Some(id) = id {
        call.insert("id".into(), id.into());
    }
    call.insert("type".into(), name.into());
    let mut function = Map::new();
    function.insert("name".into(), function_name.into());
    function.insert("arguments".into(), arguments.into());
    call.insert("function".into(), function.into());
    Ok(call.into())
}

/// Content: a string, or a list of text parts. One part is its text.
fn content(value: &Value, name: &str) -> Result<Value, Error> {
    let parts = match value {
        Value::String(_) => return Ok(value.clone()),
        Value::Array(parts) => parts,
        other => {
            return Err(invalid(
                name,
                format!(
                    "`{name}` must be a string or a list of text parts, not {}",
                    kind(other)
                ),
            ));
        }
    };
    for (i, part) in parts.iter().enumerate() {
        let mut fields = Fields::new(part, &format!("{name}[{i}]"))?;
        let type_name = fields.name("type");
        let found = text(fields.required("type")?, &type_name)?;
        if found != "text" {
            let found: String = found.chars().take(64).collect();
            return Err(invalid(
                &type_name,
                format!("`{type_name}` is {found:?}; only \"text\" is read"),
            ));
        }
        let text_name = fields.name("text");
        text(fields.required("text")?, &text_name)?;
        fields.finish()?;
    }
    Ok(match parts.as_slice() {
        [] => "".into(),
        [only] => only["text"].clone(),
        _ => value.clone(),
    })
}
