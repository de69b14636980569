//! What can be checked without running a test, cheapest first.

mod layering;
mod licences;
mod names;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::apt::Consent;
use crate::generate;
use crate::process;
use crate::wasm::{self, Toolchain};
use crate::workspace::Workspace;

/// One check of the list.
struct Check {
    name: &'static str,
    /// Whether it takes seconds at most: `cargo xtask test` begins with those.
    is_fast: bool,
    run: fn(&Workspace, Consent) -> Result<()>,
}

const CHECKS: &[Check] = &[
    Check {
        name: "gen",
        is_fast: true,
        run: |workspace, _| generate::check(workspace),
    },
    Check {
        name: "names",
        is_fast: true,
        run: |workspace, _| names::check(workspace),
    },
    Check {
        name: "layering",
        is_fast: true,
        run: |workspace, _| layering::check(workspace),
    },
    Check {
        name: "licences",
        is_fast: true,
        run: |workspace, _| licences::check(workspace),
    },
    Check {
        name: "fmt",
        is_fast: true,
        run: |workspace, _| {
            process::run(
                workspace
                    .cargo("fmt")
                    .args(["--all", "--check", "--", "-l"]),
            )
        },
    },
    Check {
        name: "clippy",
        is_fast: false,
        run: |workspace, _| {
            let mut clippy = workspace.cargo("clippy");
            process::run(clippy.args([
                "--workspace",
                "--all-targets",
                "--quiet",
                "--",
                "-D",
                "warnings",
            ]))
        },
    },
    Check {
        name: "clippy-wasm32",
        is_fast: false,
        run: |workspace, consent| {
            let mut clippy = Toolchain::find(workspace, consent)?.cargo("clippy");
            clippy.args(["--quiet", "--lib", "--target", wasm::TARGET]);
            for package in workspace.library_packages() {
                clippy.args(["--package", package]);
            }
            process::run(clippy.args(["--", "-D", "warnings"]))
        },
    },
    Check {
        name: "doc",
        is_fast: false,
        run: |workspace, _| {
            let mut doc = workspace.cargo("doc");
            doc.args(["--workspace", "--no-deps", "--quiet"])
                .env("RUSTDOCFLAGS", "-D warnings");
            process::run(&mut doc)
        },
    },
];

/// Runs the checks of these names, or all, and sums them up.
pub fn run(workspace: &Workspace, names: &[String], consent: Consent) -> Result<ExitCode> {
    for name in names {
        if !CHECKS.iter().any(|check| check.name == name) {
            let known: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
            bail!(
                "no check is named {name:?}: choose from {}",
                known.join(", ")
            );
        }
    }
    let chosen = |check: &&Check| names.is_empty() || names.iter().any(|name| name == check.name);
    let (passed, failed) = run_each(CHECKS.iter().filter(chosen), workspace, consent);
    println!("\n{passed} checks passed, {failed} failed");
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// Runs the checks that take seconds at most. Returns how many passed and how many failed.
pub fn run_fast(workspace: &Workspace, consent: Consent) -> (u64, u64) {
    run_each(
        CHECKS.iter().filter(|check| check.is_fast),
        workspace,
        consent,
    )
}

fn run_each<'a>(
    checks: impl Iterator<Item = &'a Check>,
    workspace: &Workspace,
    consent: Consent,
) -> (u64, u64) {
    let (mut passed, mut failed) = (0, 0);
    for check in checks {
        let start = Instant::now();
        let result = (check.run)(workspace, consent);
        let seconds = start.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                passed += 1;
                println!("{:<14} ok      {seconds:6.1} s", check.name);
            }
            Err(error) => {
                failed += 1;
                println!("{:<14} FAILED  {seconds:6.1} s  {error:#}", check.name);
            }
        }
    }
    (passed, failed)
}
