//! The programs of wasm-bindgen, of exactly the version in Cargo.lock: library and programs speak a format that changes with
//! every version.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::{self, Workspace};

/// What runs tests in a browser.
pub const TEST_RUNNER: &str = "wasm-bindgen-test-runner";
/// What writes the JavaScript beside a wasm module.
pub const BINDGEN: &str = "wasm-bindgen";

/// The path of a program, installed where it is missing.
pub fn program(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    let lock = fs::read_to_string(workspace.root.join("Cargo.lock"))?;
    let version =
        locked_version(&lock, "wasm-bindgen").context("Cargo.lock holds no wasm-bindgen")?;
    let folder = workspace::cache_folder()?
        .join("tools")
        .join(format!("wasm-bindgen-{version}"));
    let program = folder
        .join("bin")
        .join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if program.is_file() {
        return Ok(program);
    }
    eprintln!("installing wasm-bindgen-cli {version}, once (3 minutes)");
    let mut install = workspace.cargo("install");
    install
        .args([
            "wasm-bindgen-cli",
            "--quiet",
            "--version",
            version,
            "--root",
        ])
        .arg(&folder)
        .arg("--target-dir")
        .arg(workspace.target.join("tools"));
    process::run(&mut install)?;
    if !program.is_file() {
        bail!(
            "wasm-bindgen-cli {version} did not install {}",
            program.display()
        );
    }
    Ok(program)
}

fn locked_version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    let version = lines.nth(1)?.strip_prefix("version = \"")?;
    version.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::locked_version;

    #[test]
    fn the_version_is_that_of_the_package_itself() {
        let lock = "[[package]]\nname = \"a-macro\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"a\"\nversion = \"2.3.4\"\n";
        assert_eq!(locked_version(lock, "a"), Some("2.3.4"));
        assert_eq!(locked_version(lock, "b"), None);
    }
}
