//! JSON as Python's `json.dumps` writes it, which is what chat templates were trained with.

use std::io;

use serde_json::Value;
use serde_json::ser::Formatter;

/// The arguments of `json.dumps` that change how a value is written.
#[derive(Debug, Clone, Default)]
pub(crate) struct JsonStyle {
    /// Spaces a level, one entry a line.
    pub(crate) indent: Option<usize>,
    /// Between entries, and between key and value; by default `", "` (`","` with `indent`) and `": "`.
    pub(crate) separators: Option<(String, String)>,
    /// `ensure_ascii`: characters beyond ASCII are escaped, but for this one.
    pub(crate) escaped_but: Option<char>,
}

/// `json.dumps(value, …)`.
pub(crate) fn python_json(value: &Value, style: &JsonStyle) -> Result<String, serde_json::Error> {
    let (between, after_key) = match &style.separators {
        Some((between, after_key)) => (between.as_str(), after_key.as_str()),
        None if style.indent.is_some() => (",", ": "),
        None => (", ", ": "),
    };
    let mut out = Vec::new();
    let formatter = Python {
        between,
        after_key,
        indent: style.indent,
        escaped_but: style.escaped_but,
        depth: 0,
        empty: false,
    };
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
    serde::Serialize::serialize(value, &mut serializer)?;
    // The serializer writes UTF-8 only, so nothing is replaced.
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// The value with the keys of all its objects in order.
pub(crate) fn with_sorted_keys(value: Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(with_sorted_keys).collect(),
        Value::Object(entries) => {
            // Of the type that control tokens are sorted as: each further type has a sort of its own in wasm.
            let mut keys: Vec<(Box<str>, u32)> = Vec::with_capacity(entries.len());
            let mut values = Vec::with_capacity(entries.len());
            for ((key, value), index) in entries.into_iter().zip(0..) {
                keys.push((key.into(), index));
                values.push(with_sorted_keys(value));
            }
            keys.sort();
            let entries = keys.into_iter().map(|(key, index)| {
                let value = values.get_mut(index as usize).map(Value::take);
                (String::from(key), value.unwrap_or_default())
            });
            Value::Object(entries.collect())
        }
        other => other,
    }
}

struct Python<'s> {
    between: &'s str,
    after_key: &'s str,
    indent: Option<usize>,
    escaped_but: Option<char>,
    depth: usize,
    /// Nothing has been written in the list or object that is open.
    empty: bool,
}

impl Python<'_> {
    fn open(&mut self, writer: &mut (impl ?Sized + io::Write), bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.empty = true;
        writer.write_all(bracket)
    }

    fn entry(&mut self, writer: &mut (impl ?Sized + io::Write), first: bool) -> io::Result<()> {
        self.empty = false;
        if !first {
            writer.write_all(self.between.as_bytes())?;
        }
        self.line(writer)
    }

    fn close(&mut self, writer: &mut (impl ?Sized + io::Write), bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if !self.empty {
            self.line(writer)?;
        }
        self.empty = false;
        writer.write_all(bracket)
    }

    fn line(&self, writer: &mut (impl ?Sized + io::Write)) -> io::Result<()> {
        match self.indent {
            Some(indent) => write!(writer, "\n{:1$}", "", indent * self.depth),
            None => Ok(()),
        }
    }
}

impl Formatter for Python<'_> {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.entry(writer, first)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.entry(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.after_key.as_bytes())
    }

    /// Python's `repr`: an exponent from 1e16 on and below 1e-4, of two digits at least.
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let scientific = format!("{value:e}");
        match scientific.split_once('e') {
            Some((digits, exponent)) if value != 0.0 => match exponent.parse::<i32>() {
                Ok(exponent) if !(-4..16).contains(&exponent) => {
                    let sign = if exponent < 0 { '-' } else { '+' };
                    write!(writer, "{digits}e{sign}{:02}", exponent.unsigned_abs())
                }
                _ => write!(writer, "{value:?}"),
            },
            _ => write!(writer, "{value:?}"),
        }
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let Some(mark) = self.escaped_but else {
            return writer.write_all(fragment.as_bytes());
        };
        for letter in fragment.chars() {
            if letter == mark || letter.is_ascii() {
                write!(writer, "{letter}")?;
            } else {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_python_writes_it() {
        let value: Value = serde_json::from_str(
            r#"{"b": [1, 2.5, "é<>'😀\u0001\n"], "a": {}, "c": [], "n": null, "f": [1e16, 1.5e-5, 0.0001, 1e15, -2.0, 1e100, 0.0]}"#,
        )
        .unwrap();
        let style = |indent, escaped_but, separators| JsonStyle {
            indent,
            separators,
            escaped_but,
        };
        // json.dumps(value, ensure_ascii=False)
        assert_eq!(
            python_json(&value, &JsonStyle::default()).unwrap(),
            r#"{"b": [1, 2.5, "é<>'😀\u0001\n"], "a": {}, "c": [], "n": null, "f": [1e+16, 1.5e-05, 0.0001, 1000000000000000.0, -2.0, 1e+100, 0.0]}"#
        );
        // json.dumps(value), the mark aside
        assert_eq!(
            python_json(&value["b"], &style(None, Some('\u{E000}'), None)).unwrap(),
            r#"[1, 2.5, "\u00e9<>'\ud83d\ude00\u0001\n"]"#
        );
        // json.dumps(value, indent=1, ensure_ascii=False), and with separators=(",", "=")
        let small: Value = serde_json::from_str(r#"{"b": [1, {}], "c": [], "n": null}"#).unwrap();
        assert_eq!(
            python_json(&small, &style(Some(1), None, None)).unwrap(),
            "{\n \"b\": [\n  1,\n  {}\n ],\n \"c\": [],\n \"n\": null\n}"
        );
        let pair = Some((",".to_owned(), "=".to_owned()));
        assert_eq!(
            python_json(&small, &style(None, None, pair)).unwrap(),
            r#"{"b"=[1,{}],"c"=[],"n"=null}"#
        );
    }
}
