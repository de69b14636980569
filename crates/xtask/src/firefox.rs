//! The npm package with SmolLM2 in a headless Firefox, whose WebGPU runs on the machine's Vulkan driver: with Mesa's software driver it
//! has `shader-f16` and no subgroups, and it learns only every 100 ms that a map is done.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::apt::{self, Consent, SystemPackage};
use crate::test::Counts;
use crate::wasm::Toolchain;
use crate::workspace::Workspace;
use crate::{model, process, setup, web};

const FIREFOX: SystemPackage = SystemPackage {
    debian: "firefox-esr",
    fedora: "firefox",
    arch: "firefox",
    why: "the second browser in which the npm package is tested",
};

/// As in the tests of the crates: what lacks an adapter fails where this is `1`.
const REQUIRE_GPU: &str = "FORETOKEN_REQUIRE_GPU";

fn is_required() -> bool {
    env::var_os(REQUIRE_GPU).is_some_and(|value| value == "1")
}

fn program() -> Option<PathBuf> {
    process::find_program(&["firefox-esr", "firefox"])
}

/// Installs the browser and a driver where they are missing. Where it cannot, the suite is skipped, unless it is required.
pub fn setup(consent: Consent) -> Result<()> {
    setup::vulkan(consent)?;
    if program().is_some() {
        return Ok(());
    }
    match apt::install(&[FIREFOX], consent) {
        Err(error) if !is_required() => {
            eprintln!("{error:#}");
            Ok(())
        }
        installed => installed,
    }
}

/// Says that the suite did not run, and why.
pub fn skip(why: &str) -> Counts {
    println!("SKIPPED: {why}");
    Counts {
        skipped: 1,
        ..Counts::default()
    }
}

/// Builds the package and runs `pkg/test/firefox.mjs`.
pub fn run(workspace: &Workspace, toolchain: &Toolchain) -> Result<Counts> {
    let Some(firefox) = program() else {
        if is_required() {
            bail!("Firefox is not on PATH, and {REQUIRE_GPU}=1");
        }
        return Ok(skip("Firefox is not on PATH"));
    };
    web::build(workspace, toolchain)?;
    let model = model::fetch(model::DEFAULT)?;
    let mut test = Command::new("node");
    test.current_dir(web::folder(workspace))
        .arg("test/firefox.mjs")
        .arg(firefox)
        .arg(model.parent().context("a model without a folder")?);
    setup::choose_driver(&mut test);
    Counts::of_command(&mut test)
}
