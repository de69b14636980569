//! The methods that strings, lists and dicts have in Python and templates call: `minijinja-contrib`'s, and the few of
//! strings that it lacks.

use minijinja::value::{Value, from_args};
use minijinja::{Error, ErrorKind, State};

/// Calls `value.method(args)`.
pub(crate) fn call(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) => match of_string(text, method, args)? {
            Some(result) => Ok(result),
            None => {
                minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
            }
        },
        None => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// `None`: not one of these.
fn of_string(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let needed = |text: &str| {
        (!text.is_empty()).then_some(()).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidOperation,
                format!("{method}: empty separator"),
            )
        })
    };
    Ok(Some(match method {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            text.strip_prefix(prefix).unwrap_or(text).into()
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            text.strip_suffix(suffix).unwrap_or(text).into()
        }
        "rsplit" => {
            let (separator, most): (&str, Option<i64>) = from_args(args)?;
            needed(separator)?;
            let most = most.and_then(|most| usize::try_from(most).ok());
            let mut parts: Vec<&str> = match most {
                Some(most) => text.rsplitn(most.saturating_add(1), separator).collect(),
                None => text.rsplit(separator).collect(),
            };
            parts.reverse();
            parts.into_iter().map(Value::from).collect()
        }
        _ => return Ok(None),
    }))
}
