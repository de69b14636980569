//! Writing to stdout. A reader that has gone is an error here, not a panic.

use std::io::{self, Write};

use serde::Serialize;

/// Writes text and hands it on at once.
pub fn text(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes an object on a line of its own.
pub fn json_line(object: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(object)?;
    line.push('\n');
    text(&line)
}
