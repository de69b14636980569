//! The tests of the npm package and of the demo page, in a headless Chromium.

use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};

use crate::test::Counts;
use crate::wasm::Toolchain;
use crate::workspace::Workspace;
use crate::{browser, demo, model, serve, web};

/// What `published.js` loads; in the folder of the default model.
const LARGER: [&str; 2] = ["qwen2.5-coder-0.5b", "gemma3-270m"];

/// Builds the package and the page and runs the scripts of `pkg/test`, with `all` the long cases too.
pub fn run(workspace: &Workspace, toolchain: &Toolchain, all: bool) -> Result<Counts> {
    web::build(workspace, toolchain)?;
    web::check_types(workspace, "test")?;
    let chromium = browser::chromium().context("Chromium is not on PATH")?;
    let model = model::fetch(model::DEFAULT)?;
    let mut package = script(workspace, "test/run.mjs", &chromium);
    package.arg(model.parent().context("a model without a folder")?);
    if all {
        for alias in LARGER {
            model::fetch(alias)?;
        }
        // Where a large model is made for one of them.
        let forged = workspace.target.join("forged");
        package.arg(format!("--all={}", forged.display()));
    }
    let mut counts = Counts::of_command(&mut package)?;

    let mut application = script(workspace, "test/vite.mjs", &chromium);
    let built = workspace.target.join("vite");
    counts.add(&Counts::of_command(application.arg(built))?);

    let (listener, mounts) = demo::open(workspace, None)?;
    let url = format!("http://localhost:{}/", listener.local_addr()?.port());
    // Ends with the process.
    thread::spawn(move || serve::serve(&listener, mounts));
    let screenshots = workspace.target.join("screenshots");
    let mut page = script(workspace, "test/demo.mjs", &chromium);
    counts.add(&Counts::of_command(page.arg(url).arg(&screenshots))?);
    println!("screenshots of the page: {}", screenshots.display());
    Ok(counts)
}

fn script(workspace: &Workspace, path: &str, chromium: &Path) -> Command {
    let mut node = Command::new("node");
    node.current_dir(web::folder(workspace))
        .arg(path)
        .arg(chromium);
    node
}
