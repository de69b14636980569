//! The wasm suite in a headless Chromium, through wasm-bindgen's test runner.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::json;

use crate::apt::{self, Consent, SystemPackage};
use crate::test::Counts;
use crate::wasm::{self, Toolchain};
use crate::workspace::Workspace;
use crate::{bindgen, process};

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
            chromium: chromium()?,
            driver: process::find_program(&["chromedriver"])?,
        })
    }
}

/// The browser.
pub fn chromium() -> Option<PathBuf> {
    process::find_program(&["chromium", "chromium-browser", "google-chrome"])
}

/// Installs the browser, its driver and the test runner where they are missing.
pub fn setup(workspace: &Workspace, consent: Consent) -> Result<()> {
    if Browser::find().is_none() {
        apt::install(&[CHROMIUM, DRIVER], consent)?;
    }
    bindgen::program(workspace, bindgen::TEST_RUNNER)?;
    Ok(())
}

/// Runs the tests of crate `tests` that a browser runs; with `all`, those too that take minutes there.
pub fn run(workspace: &Workspace, toolchain: &Toolchain, all: bool) -> Result<Counts> {
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
        "--test",
        "gpu_parity",
        "--no-fail-fast",
    ])
    .env(
        "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER",
        bindgen::program(workspace, bindgen::TEST_RUNNER)?,
    )
    .env("CHROMEDRIVER", browser.driver)
    .env("WASM_BINDGEN_TEST_WEBDRIVER_JSON", webdriver)
    .env("WASM_BINDGEN_TEST_TIMEOUT", "1200");
    if all {
        test.args(["--", "--include-ignored"]);
    }
    Counts::of_command(&mut test)
}
