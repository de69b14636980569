//! Packages of a folder's `package-lock.json`, for the suites that run in Node.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;

const OLDEST_NODE: u32 = 18;

/// Installs what the folder's lock file names, unless exactly that is installed.
pub fn install(folder: &Path) -> Result<()> {
    let mut node = Command::new("node");
    let version = process::output(node.arg("--version"))
        .with_context(|| format!("install Node {OLDEST_NODE} or newer, with npm"))?;
    let major = version.trim().trim_start_matches('v').split('.').next();
    let major: u32 = major.unwrap_or_default().parse().unwrap_or_default();
    if major < OLDEST_NODE {
        bail!(
            "Node {} is too old: install Node {OLDEST_NODE} or newer",
            version.trim()
        );
    }
    let lock = fs::read(folder.join("package-lock.json"))?;
    let installed = folder.join("node_modules").join("installed-lock.json");
    if fs::read(&installed).is_ok_and(|found| found == lock) {
        return Ok(());
    }
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    let mut command = Command::new(npm);
    command.current_dir(folder).args([
        "ci",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ]);
    process::run(&mut command)?;
    fs::write(installed, lock)?;
    Ok(())
}
