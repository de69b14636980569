//! Writing to stderr. What is said there goes along with the work: where it cannot be written, the work and the exit
//! status stay what they are, while `eprintln!` would panic.

use std::fmt::Display;
use std::io::{self, Write};

/// Writes text and hands it on at once, or does not.
pub fn text(text: impl Display) {
    let mut err = io::stderr().lock();
    // In one piece: stderr is not buffered, and a line should not be torn by another process.
    let _ = err.write_all(text.to_string().as_bytes());
    let _ = err.flush();
}

/// Writes a line, or does not.
pub fn line(line: impl Display) {
    text(format_args!("{line}\n"));
}
