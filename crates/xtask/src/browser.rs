//! The wasm suite in a headless Chromium, through wasm-bindgen's test runner.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::apt::{self, Consent, SystemPackage};
use crate::process;
use crate::test::Counts;
use crate::wasm::{self, Toolchain};
use crate::workspace::{self, Workspace};

/// Headless Chromium with WebGPU on its software driver, kept from the network of its own accord.
const CHROMIUM_FLAGS: &[&str] = &[
    "--headless=new",
    "--no-sandbox",
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

const CHROMIUM: SystemPackage = SystemPackage {
    debian: "chromium",
    fedora: "chromium",
    arch: "chromium",
    why: "the browser in which the wasm tests run",
};

const DRIVER: SystemPackage = SystemPackage {
    debian: "chromium-driver",
    fedora: "chromedriver",
    arch: "chromium",
    why: "the program that steers it",
};

/// A browser and the program that steers it.
struct Browser {
    chromium: PathBuf,
    driver: PathBuf,
}

impl Browser {
    fn find() -> Option<Browser> {
        Some(Browser {
            chromium: process::find_program(&["chromium", "chromium-browser", "google-chrome"])?,
            driver: process::find_program(&["chromedriver"])?,
        })
    }
}

/// Installs the browser, its driver and the test runner where they are missing.
pub fn setup(workspace: &Workspace, consent: Consent) -> Result<()> {
    if Browser::find().is_none() {
        apt::install(&[CHROMIUM, DRIVER], consent)?;
    }
    runner(workspace)?;
    Ok(())
}

/// Runs `tests/tests/browser.rs`.
pub fn run(workspace: &Workspace, toolchain: &Toolchain) -> Result<Counts> {
    let browser = Browser::find().context("neither Chromium nor chromedriver is on PATH")?;
    let capabilities = json!({
        "goog:chromeOptions": { "binary": browser.chromium, "args": CHROMIUM_FLAGS }
    });
    fs::create_dir_all(&toolchain.target)?;
    let webdriver = toolchain.target.join("webdriver.json");
    fs::write(&webdriver, serde_json::to_string_pretty(&capabilities)?)?;
    let mut test = toolchain.cargo("test");
    test.args([
        "--target",
        wasm::TARGET,
        "--package",
        "foretoken-tests",
        "--test",
        "browser",
    ])
    .env(
        "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER",
        runner(workspace)?,
    )
    .env("CHROMEDRIVER", browser.driver)
    .env("WASM_BINDGEN_TEST_WEBDRIVER_JSON", webdriver)
    .env("WASM_BINDGEN_TEST_TIMEOUT", "600");
    Counts::of_command(&mut test)
}

/// The test runner of exactly the version in Cargo.lock: the two speak a format that changes with every version.
fn runner(workspace: &Workspace) -> Result<PathBuf> {
    let lock = fs::read_to_string(workspace.root.join("Cargo.lock"))?;
    let version =
        locked_version(&lock, "wasm-bindgen").context("Cargo.lock holds no wasm-bindgen")?;
    let folder = workspace::cache_folder()?
        .join("tools")
        .join(format!("wasm-bindgen-{version}"));
    let program = folder.join("bin").join(format!(
        "wasm-bindgen-test-runner{}",
        std::env::consts::EXE_SUFFIX
    ));
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
