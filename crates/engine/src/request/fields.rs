//! Reading a JSON object field by field, so that every refusal names its field.

use serde_json::{Map, Value};

use crate::Error;

/// The largest integer that every JSON reader keeps exactly.
const MAX_EXACT: u64 = 1 << 53;

/// A JSON object that is being read. What nobody asked for is refused by [`Fields::finish`].
pub(crate) struct Fields<'a> {
    object: &'a Map<String, Value>,
    /// In front of field names in errors: empty, or `messages[3].`.
    path: String,
    taken: Vec<&'static str>,
}

/// Which numbers a field takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    min: f64,
    max: f64,
    /// Whether `min` itself is out.
    above: bool,
}

impl Range {
    /// Both ends included.
    pub(crate) fn within(min: f64, max: f64) -> Self {
        let above = false;
        Self { min, max, above }
    }

    /// `max` included, `min` not.
    pub(crate) fn above(min: f64, max: f64) -> Self {
        let above = true;
        Self { min, max, above }
    }

    fn holds(self, number: f64) -> bool {
        number <= self.max
            && if self.above {
                number > self.min
            } else {
                number >= self.min
            }
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (min, max) = (self.min, self.max);
        if self.above {
            write!(f, "above {min} and at most {max}")
        } else {
            write!(f, "within {min}..={max}")
        }
    }
}

/// An [`Error::InvalidRequest`] about `param`.
pub(crate) fn invalid(param: impl Into<String>, message: impl Into<String>) -> Error {
    Error::InvalidRequest {
        param: Some(param.into()),
        message: message.into(),
    }
}

impl<'a> Fields<'a> {
    /// Starts on `value`, which stands at `path` (empty for the body).
    pub(crate) fn new(value: &'a Value, path: &str) -> Result<Self, Error> {
        match value {
            Value::Object(object) => {
                let path = if path.is_empty() {
                    String::new()
                } else {
                    format!("{path}.")
                };
                Ok(Self {
                    object,
                    path,
                    taken: Vec::new(),
                })
            }
            other if path.is_empty() => Err(Error::InvalidRequest {
                param: None,
                message: format!(
                    "the request body must be a JSON object, not {}",
                    kind(other)
                ),
            }),
            other => Err(invalid(
                path,
                format!("`{path}` must be an object, not {}", kind(other)),
            )),
        }
    }

    /// The full name of a field.
    pub(crate) fn name(&self, field: &str) -> String {
        format!("{}{field}", self.path)
    }

    /// A field as it stands, `null` included.
    pub(crate) fn raw(&mut self, field: &'static str) -> Option<&'a Value> {
        self.taken.push(field);
        self.object.get(field)
    }

    /// An optional field; `null` means absent, as in OpenAI's schema.
    pub(crate) fn optional(&mut self, field: &'static str) -> Option<&'a Value> {
        self.raw(field).filter(|value| !value.is_null())
    }

    /// A field that must be there.
    pub(crate) fn required(&mut self, field: &'static str) -> Result<&'a Value, Error> {
        let name = self.name(field);
        self.raw(field)
            .ok_or_else(|| invalid(&name, format!("`{name}` is required")))
    }

    /// An optional string.
    pub(crate) fn string(&mut self, field: &'static str) -> Result<Option<&'a str>, Error> {
        let value = self.optional(field);
        value
            .map(|value| text(value, &self.name(field)))
            .transpose()
    }

    /// An optional truth value; absent means false.
    pub(crate) fn flag(&mut self, field: &'static str) -> Result<bool, Error> {
        Ok(self.optional_flag(field)?.unwrap_or(false))
    }

    /// An optional flag that knows whether it was given.
    pub(crate) fn optional_flag(&mut self, field: &'static str) -> Result<Option<bool>, Error> {
        let name = self.name(field);
        match self.optional(field) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(invalid(
                &name,
                format!("`{name}` must be true or false, not {}", kind(other)),
            )),
        }
    }

    /// An optional integer within `min..=max`.
    pub(crate) fn integer(
        &mut self,
        field: &'static str,
        min: u32,
        max: u32,
    ) -> Result<Option<u32>, Error> {
        let value = self.optional(field);
        value
            .map(|value| integer(value, &self.name(field), min, max))
            .transpose()
    }

    /// An optional number within a range.
    pub(crate) fn number(
        &mut self,
        field: &'static str,
        range: Range,
    ) -> Result<Option<f64>, Error> {
        let value = self.optional(field);
        value
            .map(|value| number(value, &self.name(field), range))
            .transpose()
    }

    /// Refuses `null` for a field that is either left out or has a value.
    pub(crate) fn refuse_null(&self, field: &str) -> Result<(), Error> {
        match self.object.get(field) {
            Some(Value::Null) => {
                let name = self.name(field);
                Err(invalid(
                    &name,
                    format!("`{name}` must not be null: leave it out instead"),
                ))
            }
            _ => Ok(()),
        }
    }

    /// An optional integer of 64 bits, signed or not, as its bits.
    pub(crate) fn bits64(&mut self, field: &'static str) -> Result<Option<u64>, Error> {
        let name = self.name(field);
        let Some(value) = self.optional(field) else {
            return Ok(None);
        };
        let bits = value
            .as_u64()
            .or_else(|| value.as_i64().map(i64::cast_unsigned));
        match bits {
            Some(bits) => Ok(Some(bits)),
            None => Err(invalid(
                &name,
                format!(
                    "`{name}` must be an integer of 64 bits, not {}",
                    kind(value)
                ),
            )),
        }
    }

    /// Refuses the first field that nobody took.
    pub(crate) fn finish(self) -> Result<(), Error> {
        match self
            .object
            .keys()
            .find(|key| !self.taken.contains(&key.as_str()))
        {
            None => Ok(()),
            Some(key) => {
                let name = self.name(&shorten(key));
                Err(invalid(
                    &name,
                    format!("`{name}` is not a parameter that is supported here: leave it out"),
                ))
            }
        }
    }
}

/// A string value.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str, Error> {
    value.as_str().ok_or_else(|| {
        invalid(
            name,
            format!("`{name}` must be a string, not {}", kind(value)),
        )
    })
}

/// A list value.
pub(crate) fn list<'a>(value: &'a Value, name: &str) -> Result<&'a [Value], Error> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(invalid(
            name,
            format!("`{name}` must be a list, not {}", kind(other)),
        )),
    }
}

/// An integer value within `min..=max`.
pub(crate) fn integer(value: &Value, name: &str, min: u32, max: u32) -> Result<u32, Error> {
    let Some(number) = value.as_i64() else {
        let found = match value {
            Value::Number(number) => number.to_string(),
            other => kind(other).to_owned(),
        };
        return Err(invalid(
            name,
            format!("`{name}` must be an integer within {min}..={max}, not {found}"),
        ));
    };
    if number.unsigned_abs() > MAX_EXACT {
        return Err(invalid(
            name,
            format!("`{name}` is {number}, beyond the integers that JSON keeps exactly"),
        ));
    }
    match u32::try_from(number) {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(invalid(
            name,
            format!("`{name}` is {number}, outside {min}..={max}"),
        )),
    }
}

/// A number value within a range. (Only finite numbers are within any.)
pub(crate) fn number(value: &Value, name: &str, range: Range) -> Result<f64, Error> {
    let found = match value {
        Value::Number(number) => match number.as_f64().filter(|number| range.holds(*number)) {
            Some(number) => return Ok(number),
            None => number.to_string(),
        },
        other => kind(other).to_owned(),
    };
    Err(invalid(
        name,
        format!("`{name}` must be a number {range}, not {found}"),
    ))
}

/// What kind of JSON value this is, for messages.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A name out of a request, short enough and clean enough for a one-line message.
fn shorten(name: &str) -> String {
    let clean: String = name
        .chars()
        .take(64)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    if clean.len() < name.len() && name.chars().count() > 64 {
        format!("{clean}…")
    } else {
        clean
    }
}
