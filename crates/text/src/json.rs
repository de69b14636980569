//! JSON as Python's `json.dumps` writes it, which is what chat templates were trained with.

use std::io;

use serde_json::Value;
use serde_json::ser::{Formatter, PrettyFormatter};

/// `json.dumps(value, ensure_ascii=False)`: a space after each comma and colon; with `indent`, one entry a line.
pub(crate) fn python_json(
    value: &Value,
    indent: Option<usize>,
) -> Result<String, serde_json::Error> {
    let mut out = Vec::new();
    match indent {
        None => write(value, &mut out, Spaced),
        Some(indent) => write(
            value,
            &mut out,
            PrettyFormatter::with_indent(" ".repeat(indent).as_bytes()),
        ),
    }?;
    // The serializer writes UTF-8 only, so nothing is replaced.
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn write(
    value: &Value,
    out: &mut Vec<u8>,
    formatter: impl Formatter,
) -> Result<(), serde_json::Error> {
    let mut serializer = serde_json::Serializer::with_formatter(out, formatter);
    serde::Serialize::serialize(value, &mut serializer)
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first {
            Ok(())
        } else {
            writer.write_all(b", ")
        }
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first {
            Ok(())
        } else {
            writer.write_all(b", ")
        }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_python_writes_it() {
        let value: Value =
            serde_json::from_str(r#"{"b": [1, 2.5, "é<>'"], "a": {}, "c": [], "n": null}"#)
                .unwrap();
        assert_eq!(
            python_json(&value, None).unwrap(),
            r#"{"b": [1, 2.5, "é<>'"], "a": {}, "c": [], "n": null}"#
        );
        // json.dumps(value, indent=1, ensure_ascii=False)
        assert_eq!(
            python_json(&value, Some(1)).unwrap(),
            "{\n \"b\": [\n  1,\n  2.5,\n  \"é<>'\"\n ],\n \"a\": {},\n \"c\": [],\n \"n\": null\n}"
        );
    }
}
