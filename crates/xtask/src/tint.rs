//! Composed shaders through Tint, the shader compiler of Chrome: naga and Tint do not accept the same WGSL.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::test::Counts;
use crate::workspace::Workspace;
use crate::{npm, process};

/// Chromium's description of the software driver that it brings.
const SWIFTSHADER: &str = "/usr/lib/chromium/vk_swiftshader_icd.json";

/// Dumps the shaders of every tier and compiles them: on a device that has every feature and draws nothing, so that no shader escapes
/// Tint, with `all` of every format in every variant; and where Chromium is installed on its software driver too, which builds the
/// pipelines: there every two variants beside one another in any case, because a thousand pipelines take it minutes.
pub fn run(workspace: &Workspace, all: bool) -> Result<Counts> {
    let folder = workspace.root.join("tests").join("tint");
    npm::install(&folder)?;
    let shaders = workspace.target.join("tint-shaders");
    dump(workspace, &shaders, all)?;
    let mut counts = compile(&folder, &shaders, "null", None)?;
    let driver = Path::new(SWIFTSHADER);
    if driver.is_file() {
        if all {
            dump(workspace, &shaders, false)?;
        }
        counts.add(&compile(&folder, &shaders, "vulkan", Some(driver))?);
    } else {
        println!("SKIPPED: the pass on Chromium's software driver: {SWIFTSHADER} is not installed");
    }
    Ok(counts)
}

fn dump(workspace: &Workspace, shaders: &Path, all: bool) -> Result<()> {
    fs::remove_dir_all(shaders).ok();
    let mut dump = workspace.cargo("run");
    dump.args([
        "--quiet",
        "--package",
        "foretoken-gpu",
        "--example",
        "dump_shaders",
        "--",
    ])
    .arg(shaders);
    if all {
        dump.arg("--all");
    }
    process::run(&mut dump)?;
    Ok(())
}

fn compile(folder: &Path, shaders: &Path, backend: &str, driver: Option<&Path>) -> Result<Counts> {
    let mut node = Command::new("node");
    node.arg(folder.join("compile.mjs"))
        .arg(shaders)
        .arg(backend);
    if let Some(driver) = driver {
        node.env("VK_DRIVER_FILES", driver);
    }
    Counts::of_command(&mut node)
}
