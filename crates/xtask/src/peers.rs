//! The npm package beside others that run language models in a page: `pkg/bench/peers.mjs` measures them in turn in one headless
//! Chromium. They are installed under the target folder, by themselves: nothing of the workspace or the package depends on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::apt::Consent;
use crate::wasm::Toolchain;
use crate::workspace::Workspace;
use crate::{browser, model, process, web};

/// The newest of these majors is installed the first time, and with `--renew`: what the script calls may change with the next.
const PACKAGES: &[&str] = &["@wllama/wllama@3", "@huggingface/transformers@4"];

/// What `export_onnx.py` imports.
const PYTHON_PACKAGES: &[&str] = &["gguf", "numpy", "onnx-ir", "onnxruntime"];

/// How `cargo xtask peers` measures.
#[derive(Args)]
pub struct Options {
    /// How often every engine is loaded and measured, in turn with the others
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Tokens generated a prompt
    #[arg(long, default_value_t = 24)]
    tokens: u32,
    /// Tokens generated a prompt by engines that make less than one a second on a software adapter
    #[arg(long, default_value_t = 8)]
    slow_tokens: u32,
    /// Only these, separated by commas; a wrong name lists them all
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// Seconds after which one engine's turn counts as failed
    #[arg(long, default_value_t = 240)]
    limit: u32,
    /// Install the peers' newest versions, and export the model again
    #[arg(long)]
    renew: bool,
    /// Install without asking
    #[arg(long)]
    yes: bool,
}

/// Builds the package, gets the peers and measures.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let consent = Consent::from_flag(options.yes);
    if browser::chromium().is_none() {
        browser::setup(workspace, consent)?;
    }
    let chromium = browser::chromium().context("Chromium is not on PATH")?;
    let toolchain = Toolchain::find(workspace, consent)?;
    web::build(workspace, &toolchain)?;
    let model = model::fetch(model::DEFAULT)?;
    let folder = workspace.target.join("peers");
    if options.renew {
        fs::remove_dir_all(&folder).ok();
    }
    let asked = |peer: &str| {
        options.engines.is_empty() || options.engines.iter().any(|name| name.starts_with(peer))
    };
    if asked("wllama") || asked("transformers") {
        install(&folder)?;
    }
    if asked("transformers") {
        export(workspace, &folder, &model)?;
    }
    let mut measure = Command::new("node");
    measure
        .current_dir(web::folder(workspace))
        .arg("bench/peers.mjs")
        .arg("--chromium")
        .arg(chromium)
        .arg("--model")
        .arg(&model)
        .arg("--peers")
        .arg(&folder)
        .args(["--rounds", &options.rounds.to_string()])
        .args(["--tokens", &options.tokens.to_string()])
        .args(["--slow-tokens", &options.slow_tokens.to_string()])
        .args(["--limit", &options.limit.to_string()]);
    if !options.engines.is_empty() {
        measure.args(["--engines", &options.engines.join(",")]);
    }
    process::run(&mut measure)
}

/// Installs the peers' npm packages.
fn install(folder: &Path) -> Result<()> {
    once(&folder.join("npm"), PACKAGES.join("\n").as_bytes(), |to| {
        fs::write(to.join("package.json"), "{ \"private\": true }\n")?;
        let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
        let mut command = Command::new(npm);
        command
            .current_dir(to)
            .args([
                "install",
                "--ignore-scripts",
                "--omit=optional",
                "--no-audit",
                "--no-fund",
                "--no-package-lock",
                "--loglevel=error",
            ])
            .args(PACKAGES);
        process::run(&mut command)
    })
}

/// Writes the model as ONNX, with a Python of its own.
fn export(workspace: &Workspace, folder: &Path, model: &Path) -> Result<()> {
    let environment = folder.join("python");
    let packages = PYTHON_PACKAGES.join("\n");
    once(&environment, packages.as_bytes(), |to| {
        let python = process::find_program(&["python3", "python"])
            .context("install Python 3.10 or newer, with venv")?;
        process::run(Command::new(python).args(["-m", "venv"]).arg(to))?;
        let mut pip = Command::new(python_in(to));
        pip.args(["-m", "pip", "install", "--quiet"])
            .args(PYTHON_PACKAGES);
        process::run(&mut pip)
    })?;
    let script = web::folder(workspace).join("bench").join("export_onnx.py");
    let golden = workspace
        .root
        .join("tests/golden")
        .join(format!("{}.json", model::DEFAULT));
    once(&folder.join("onnx"), &fs::read(&script)?, |to| {
        println!("exporting the model to ONNX and holding it against the golden tokens (minutes)");
        let mut command = Command::new(python_in(&environment));
        command.arg(&script).arg(model).arg(&golden).arg(to);
        process::run(&mut command)
    })
}

fn python_in(environment: &Path) -> PathBuf {
    if cfg!(windows) {
        environment.join("Scripts").join("python.exe")
    } else {
        environment.join("bin").join("python")
    }
}

/// Makes a folder, unless it was made to the end from the same `recipe`.
fn once(folder: &Path, recipe: &[u8], make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let made_from = folder.join("made-from");
    if fs::read(&made_from).is_ok_and(|found| found == recipe) {
        return Ok(());
    }
    fs::remove_dir_all(folder).ok();
    fs::create_dir_all(folder)?;
    make(folder)?;
    fs::write(made_from, recipe)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_again_for_another_recipe_or_after_a_failure() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("foretoken-peers-{}", std::process::id()));
        let mut made = 0;
        let mut make = |recipe: &[u8], fails: bool| {
            let outcome = once(&folder, recipe, |to| {
                made += 1;
                anyhow::ensure!(fs::read_dir(to)?.count() == 0, "there is something left");
                fs::write(to.join("something"), "")?;
                anyhow::ensure!(!fails, "as asked for");
                Ok(())
            });
            assert_eq!(outcome.is_err(), fails, "{outcome:?}");
            made
        };
        assert_eq!(make(b"one", true), 1);
        assert_eq!(make(b"one", false), 2, "nothing was made before");
        assert_eq!(make(b"one", false), 2, "it was made");
        assert_eq!(make(b"two", false), 3, "another recipe");
        fs::remove_dir_all(&folder)?;
        Ok(())
    }
}
