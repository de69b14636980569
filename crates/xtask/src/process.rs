//! Running other programs: every failure names the program and how it ended.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

/// The command as one would type it, without the folder of the program.
pub fn display(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(program).chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    words.join(" ")
}

fn spawn(command: &mut Command) -> Result<Child> {
    command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow!(
            "`{}` is not installed (needed for `{}`)",
            command.get_program().to_string_lossy(),
            display(command)
        ),
        _ => anyhow!("cannot start `{}`: {error}", display(command)),
    })
}

/// Runs to the end with this process's input and output; anything but success is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = spawn(command)?.wait()?;
    if !status.success() {
        bail!("`{}` ended with {status}", display(command));
    }
    Ok(())
}

/// Runs to the end and returns what it wrote to standard output; what it wrote to standard error stands in the error.
pub fn output(command: &mut Command) -> Result<String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = spawn(command)?.wait_with_output()?;
    if !output.status.success() {
        bail!(
            "`{}` ended with {}: {}",
            display(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` did not print UTF-8", display(command)))
}

/// Whether the program starts and succeeds; its output is dropped.
pub fn succeeds(command: &mut Command) -> bool {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Runs to the end, passing both outputs through line by line and showing each line to `watch`.
/// Returns whether the program succeeded.
pub fn watched(command: &mut Command, mut watch: impl FnMut(&str) + Send) -> Result<bool> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = spawn(command)?;
    let (sender, lines) = std::sync::mpsc::channel();
    let outputs: [Option<Box<dyn std::io::Read + Send>>; 2] = [
        child.stdout.take().map(|pipe| Box::new(pipe) as _),
        child.stderr.take().map(|pipe| Box::new(pipe) as _),
    ];
    thread::scope(|scope| {
        for pipe in outputs.into_iter().flatten() {
            let sender = sender.clone();
            scope.spawn(move || {
                for line in BufReader::new(pipe).split(b'\n') {
                    let Ok(line) = line else { break };
                    let line = String::from_utf8_lossy(&line).into_owned();
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for line in lines {
            println!("{line}");
            watch(&line);
        }
    });
    Ok(child.wait()?.success())
}

/// Runs quietly for at most `limit`, then ends the program. Returns whether it succeeded in time.
pub fn succeeds_within(command: &mut Command, limit: Duration) -> Result<bool> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = spawn(command)?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if start.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// The first of these programs that stands on PATH.
pub fn find_program(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    names.iter().find_map(|name| {
        let file = format!("{name}{}", env::consts::EXE_SUFFIX);
        folders
            .iter()
            .map(|folder| folder.join(&file))
            .find(|candidate| candidate.is_file())
    })
}
