//! The tests of the npm package, on a page in a headless Chromium.

use std::process::Command;

use anyhow::{Context, Result};

use crate::test::Counts;
use crate::wasm::Toolchain;
use crate::workspace::Workspace;
use crate::{browser, model, web};

/// Builds the package and runs `pkg/test/run.mjs`.
pub fn run(workspace: &Workspace, toolchain: &Toolchain) -> Result<Counts> {
    web::build(workspace, toolchain)?;
    web::check_types(workspace, "test")?;
    let model = model::fetch(model::DEFAULT)?;
    let mut node = Command::new("node");
    node.current_dir(web::folder(workspace))
        .arg("test/run.mjs")
        .arg(browser::chromium().context("Chromium is not on PATH")?)
        .arg(model.parent().context("a model without a folder")?);
    Counts::of_command(&mut node)
}
