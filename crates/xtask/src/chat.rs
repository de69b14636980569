//! From a clone to an answer: set up, fetch the model, build, run.

use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::apt::Consent;
use crate::workspace::Workspace;
use crate::{model, process, setup};

/// Runs `foretoken chat ARGS` on the release build. Models that are named by a known alias are fetched first; `--yes`
/// is taken out of ARGS.
pub fn run(workspace: &Workspace, mut args: Vec<String>) -> Result<ExitCode> {
    let given = args.len();
    args.retain(|arg| arg != "--yes");
    if !args.iter().any(|arg| arg == "--help" || arg == "-h") {
        setup::vulkan(Consent::from_flag(args.len() < given))?;
        if option(&args, "--model").is_none() {
            model::fetch(model::DEFAULT)?;
        }
        for name in ["--model", "--draft-model"] {
            if let Some(alias) = option(&args, name).filter(|alias| model::is_known(alias)) {
                model::fetch(alias)?;
            }
        }
    }
    process::run(
        workspace
            .cargo("build")
            .args(["--release", "--package", "foretoken-cli"]),
    )?;
    let program = workspace
        .target
        .join("release")
        .join(format!("foretoken{}", std::env::consts::EXE_SUFFIX));
    let mut chat = Command::new(program);
    chat.arg("chat").args(args);
    setup::choose_driver(&mut chat);
    replace_this_process(&mut chat)
}

/// The value of `--name VALUE` or `--name=VALUE`, the last one given.
fn option<'a>(args: &'a [String], name: &str) -> Option<&'a str> {
    args.iter().enumerate().rev().find_map(|(at, arg)| {
        if arg == name {
            return args.get(at + 1).map(String::as_str);
        }
        arg.strip_prefix(name)?.strip_prefix('=')
    })
}

/// The chat's own exit status and its handling of an interrupt are what the caller sees.
fn replace_this_process(command: &mut Command) -> Result<ExitCode> {
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        let error = command.exec();
        anyhow::bail!("cannot start `{}`: {error}", process::display(command))
    }
    #[cfg(not(unix))]
    {
        let status = command.status()?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        Ok(ExitCode::from(code.unwrap_or(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::option;

    #[test]
    fn the_last_value_of_an_option_counts() {
        let args = ["--model", "a", "--model=b", "hello"].map(String::from);
        assert_eq!(option(&args, "--model"), Some("b"));
        assert_eq!(option(&args, "--draft-model"), None);
        assert_eq!(option(&["--models=c".to_owned()], "--model"), None);
    }
}
