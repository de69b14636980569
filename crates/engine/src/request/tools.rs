//! `tools` and `tool_choice` of a chat completion.

use serde_json::Value;

use super::fields::{Fields, invalid, kind, list, text};
use crate::Error;

/// The most tools of a request, as in OpenAI's API.
pub const MAX_TOOLS: usize = 128;

/// The tools as they were given, and whether an answer may call them. As in vLLM, `tool_choice: "none"` shows them to the
/// model all the same, so that a conversation's prompt stays what it was.
pub(super) fn tools(fields: &mut Fields<'_>) -> Result<(Vec<Value>, bool), Error> {
    let tools = match fields.optional("tools") {
        None => &[],
        Some(value) => list(value, "tools")?,
    };
    if tools.len() > MAX_TOOLS {
        let found = tools.len();
        return Err(invalid(
            "tools",
            format!("`tools` has {found} entries; at most {MAX_TOOLS} are taken"),
        ));
    }
    for (i, value) in tools.iter().enumerate() {
        tool(value, &format!("tools[{i}]"))?;
    }
    const CHOICE: &str = "tool_choice";
    let calls = match fields.optional(CHOICE) {
        None => !tools.is_empty(),
        Some(Value::String(choice)) if choice == "none" => false,
        Some(Value::String(choice)) if choice == "auto" => {
            if tools.is_empty() {
                return Err(invalid(
                    CHOICE,
                    "`tool_choice` is \"auto\", but there are no `tools` to choose from: pass some, or leave it out",
                ));
            }
            true
        }
        Some(value) => {
            let found = match value {
                Value::String(choice) => {
                    let choice: String = choice.chars().take(64).collect();
                    format!("{choice:?}")
                }
                other => kind(other).to_owned(),
            };
            return Err(invalid(
                CHOICE,
                format!(
                    "`tool_choice` is {found}; \"none\" and \"auto\" are taken: a call cannot be forced here"
                ),
            ));
        }
    };
    Ok((tools.to_vec(), calls))
}

fn tool(value: &Value, path: &str) -> Result<(), Error> {
    let mut fields = Fields::new(value, path)?;
    let (mut function, _) = called_function(&mut fields)?;
    let name = function.name("name");
    let found = text(function.required("name")?, &name)?;
    let is_name = (1..=64).contains(&found.len())
        && (found.bytes())
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
    if !is_name {
        let found: String = found.chars().take(64).collect();
        return Err(invalid(
            &name,
            format!("`{name}` is {found:?}; 1 to 64 letters, digits, '_', '-' and '.' are taken"),
        ));
    }
    function.string("description")?;
    let name = function.name("parameters");
    if let Some(value) = function.optional("parameters")
        && !value.is_object()
    {
        return Err(invalid(
            &name,
            format!(
                "`{name}` must be an object, a JSON schema, not {}",
                kind(value)
            ),
        ));
    }
    if function.flag("strict")? {
        let name = function.name("strict");
        return Err(invalid(
            &name,
            format!(
                "`{name}` is true, but calls cannot be held to a schema here: leave it out, or pass false"
            ),
        ));
    }
    function.finish()?;
    fields.finish()
}

/// The field `function` of a tool or a call, and its type, which is the only one there is.
pub(super) fn called_function<'a>(
    fields: &mut Fields<'a>,
) -> Result<(Fields<'a>, &'static str), Error> {
    let name = fields.name("type");
    let found = fields.string("type")?.unwrap_or("function");
    if found != "function" {
        let found: String = found.chars().take(64).collect();
        return Err(invalid(
            &name,
            format!("`{name}` is {found:?}; only \"function\" is taken"),
        ));
    }
    let name = fields.name("function");
    let function = Fields::new(fields.required("function")?, &name)?;
    Ok((function, "function"))
}
