//! How it ends: exit status, and one line on stderr where it failed.

use std::fmt;
use std::io::ErrorKind;
use std::process::ExitCode;

use clap::error::ErrorKind as UsageKind;
use foretoken_engine::{Error, ErrorBody, ErrorObject};

use crate::{stderr, stdout};

/// How a command ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It did what it was asked to.
    Done,
    /// Ctrl-C ended it; what there was by then was put out.
    Interrupted,
}

impl Status {
    /// 0 or 130.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Status::Done => ExitCode::SUCCESS,
            Status::Interrupted => ExitCode::from(INTERRUPTED),
        }
    }
}

/// The exit status after Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// A failure of the binary's own, with one of the engine's codes.
#[derive(Debug)]
pub struct Failure {
    /// As [`Error::code`].
    pub code: &'static str,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// A failure about what the user passed.
pub fn invalid(message: impl Into<String>) -> anyhow::Error {
    Failure {
        code: "invalid_request",
        message: message.into(),
    }
    .into()
}

/// Prints `error: …` on stderr, and with `json` the error object on stdout.
pub fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    // Whoever read our output has gone: nobody is left to tell, and nothing went wrong.
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    if causes.any(|cause| cause.kind() == ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    let message = one_line(&format!("{error:#}"));
    stderr::line(format_args!("error: {message}"));
    if json {
        let mut object = error
            .chain()
            .find_map(|cause| {
                let engine = cause.downcast_ref::<Error>().map(Error::to_object);
                engine.or_else(|| cause.downcast_ref::<Failure>().map(object))
            })
            .unwrap_or_else(|| {
                object(&Failure {
                    code: "internal",
                    message: String::new(),
                })
            });
        object.error.message = message;
        // A reader that has gone is no reason for another status.
        let _ = stdout::json_line(&object);
    }
    ExitCode::FAILURE
}

fn object(failure: &Failure) -> ErrorObject {
    let kind = if failure.code == "invalid_request" {
        "invalid_request_error"
    } else {
        "server_error"
    };
    ErrorObject {
        error: ErrorBody {
            message: String::new(),
            r#type: kind,
            code: failure.code,
            param: None,
        },
    }
}

/// Prints help or version as clap has them, a usage error as one line.
pub fn usage(error: &clap::Error) -> ExitCode {
    if matches!(
        error.kind(),
        UsageKind::DisplayHelp | UsageKind::DisplayVersion
    ) {
        // Nothing can be done if even this cannot be written.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if error.kind() == UsageKind::DisplayHelpOnMissingArgumentOrSubcommand {
        stderr::line(
            "error: a command is needed: chat, complete, bench, inspect or devices (see --help)",
        );
        return ExitCode::from(2);
    }
    let text = error.to_string();
    let about = one_line(text.split("\n\n").next().unwrap_or(&text));
    stderr::line(format_args!(
        "error: {} (see --help)",
        about.strip_prefix("error: ").unwrap_or(&about)
    ));
    ExitCode::from(2)
}

/// Line breaks and runs of blanks become one blank; control characters go.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}
