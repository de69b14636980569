//! The test suites, what each proves and how long it should take.
//!
//! A budget that is exceeded is reported and fails nothing: time depends on the machine, results must not.

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::apt::Consent;
use crate::wasm::{self, Toolchain};
use crate::workspace::Workspace;
use crate::{browser, check, firefox, model, pkg, process, setup, tint};

/// One suite of the list; `docs/TESTING.md` shows the same list.
struct Suite {
    name: &'static str,
    proves: &'static str,
    /// Minutes on two cores in a plain run from a clean clone, building included.
    budget_minutes: u32,
    run: fn(&Context) -> Result<Counts>,
}

const SUITES: &[Suite] = &[
    Suite {
        name: "check",
        proves: "generated tables, names, layering, licences and format are right",
        budget_minutes: 1,
        run: |context| {
            let (passed, failed) = check::run_fast(context.workspace, context.consent);
            Ok(Counts {
                passed,
                failed,
                skipped: 0,
            })
        },
    },
    Suite {
        name: "native",
        proves: "unit and integration tests of every crate, on the CPU and on the native GPU adapter",
        budget_minutes: 10,
        run: native,
    },
    Suite {
        name: "doc",
        proves: "the examples in the documentation run",
        budget_minutes: 1,
        run: |context| {
            Counts::of_command(context.workspace.cargo("test").args([
                "--workspace",
                "--doc",
                "--quiet",
            ]))
        },
    },
    Suite {
        name: "wasm32",
        proves: "every library crate compiles for the browser",
        budget_minutes: 3,
        run: wasm32,
    },
    Suite {
        name: "tint",
        proves: "shaders of every tier compile in Tint, Chrome's shader compiler",
        budget_minutes: 4,
        run: |context| tint::run(context.workspace, context.all),
    },
    Suite {
        name: "browser",
        proves: "the kernels compute in headless Chromium what the CPU does, the same model gives the same tokens, drafted or not",
        budget_minutes: 5,
        run: |context| browser::run(context.workspace, context.toolchain()?, context.all),
    },
    Suite {
        name: "pkg",
        proves: "the npm package and the demo page load, answer, stream, abort, cache and recover",
        budget_minutes: 15,
        run: |context| pkg::run(context.workspace, context.toolchain()?, context.all),
    },
    Suite {
        name: "firefox",
        proves: "the package and SmolLM2 in headless Firefox; only with --all",
        budget_minutes: 8,
        run: |context| {
            if !context.all {
                return Ok(firefox::skip(
                    "only `cargo xtask test --all` starts Firefox",
                ));
            }
            firefox::run(context.workspace, context.toolchain()?)
        },
    },
];

/// What the suites share.
struct Context<'a> {
    workspace: &'a Workspace,
    consent: Consent,
    all: bool,
    toolchain: Option<Toolchain>,
}

impl Context<'_> {
    fn toolchain(&self) -> Result<&Toolchain> {
        self.toolchain
            .as_ref()
            .context("no toolchain for wasm32 was set up")
    }
}

/// Tests that passed, failed and did not run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Counts {
    /// Adds another suite's.
    pub fn add(&mut self, other: &Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Runs a test runner and reads its closing lines. A runner that fails without a failed test counts as one, and so
    /// does one that ran no test.
    pub fn of_command(command: &mut Command) -> Result<Counts> {
        let mut closing = ClosingLines::default();
        let succeeded = process::watched(command, |line| closing.take(line))?;
        let mut counts = closing.counts();
        if !succeeded && counts.failed == 0 {
            println!("`{}` failed", process::display(command));
            counts.failed = 1;
        }
        Ok(counts)
    }

    /// Reads the closing line of nextest (`Summary [ 1.2s] 9 tests run: 7 passed (1 slow), 2 failed, 3 skipped`), of
    /// libtest (`test result: ok. 7 passed; 2 failed; 3 ignored; …`) or of a script (`7 passed, 2 failed`).
    fn of_line(line: &str) -> Counts {
        let line = line.trim();
        let counts = if let Some(line) = line.strip_prefix("Summary [") {
            line.split_once("run:").map_or("", |(_, counts)| counts)
        } else if let Some(line) = line.strip_prefix("test result:") {
            line.split_once('.').map_or("", |(_, counts)| counts)
        } else if line.starts_with(|char: char| char.is_ascii_digit()) && line.contains(" passed, ")
        {
            line
        } else {
            ""
        };
        let mut found = Counts::default();
        for part in counts.split([',', ';']) {
            let mut words = part.split_whitespace();
            let number = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            match words.next() {
                Some("passed") => found.passed += number,
                Some("failed" | "timed") => found.failed += number,
                Some("skipped" | "ignored") => found.skipped += number,
                _ => {}
            }
        }
        found
    }
}

/// The closing lines of one run.
#[derive(Default)]
struct ClosingLines {
    nextest: Option<Counts>,
    others: Counts,
}

impl ClosingLines {
    fn take(&mut self, line: &str) {
        let counts = Counts::of_line(line);
        if line.trim().starts_with("Summary [") {
            self.nextest.get_or_insert_default().add(&counts);
        } else {
            self.others.add(&counts);
        }
    }

    /// nextest's own sum where there is one: the other lines are then what its failed tests printed.
    fn counts(self) -> Counts {
        self.nextest.unwrap_or(self.others)
    }
}

/// Sets up what the chosen suites need, runs them in order, and ends with their sum.
pub fn run(
    workspace: &Workspace,
    all: bool,
    names: &[String],
    consent: Consent,
) -> Result<ExitCode> {
    for name in names {
        if !SUITES.iter().any(|suite| suite.name == name) {
            let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
            bail!(
                "no suite is named {name:?}: choose from {}",
                known.join(", ")
            );
        }
    }
    let chosen = |name: &str| names.is_empty() || names.iter().any(|chosen| chosen == name);
    let mut context = Context {
        workspace,
        consent,
        all,
        toolchain: None,
    };
    if chosen("native") {
        setup::vulkan(consent)?;
        model::fetch(model::DEFAULT)?;
    }
    if chosen("browser") || chosen("pkg") {
        browser::setup(workspace, consent)?;
    }
    let in_firefox = all && chosen("firefox");
    if in_firefox {
        firefox::setup(consent)?;
    }
    if chosen("wasm32") || chosen("browser") || chosen("pkg") || in_firefox {
        context.toolchain = Some(Toolchain::find(workspace, consent)?);
    }

    let mut total = Counts::default();
    let mut rows = Vec::new();
    for suite in SUITES.iter().filter(|suite| chosen(suite.name)) {
        println!(
            "\n== {}: {} (budget {} min)",
            suite.name, suite.proves, suite.budget_minutes
        );
        let start = Instant::now();
        let mut counts = (suite.run)(&context).unwrap_or_else(|error| {
            println!("{} FAILED: {error:#}", suite.name);
            Counts {
                failed: 1,
                ..Counts::default()
            }
        });
        // An example is nobody's duty, and Firefox is started on demand: these two alone may be empty.
        let may_be_empty = ["doc", "firefox"].contains(&suite.name);
        if counts.passed + counts.failed == 0 && !may_be_empty {
            println!("{} FAILED: it ran no test", suite.name);
            counts.failed = 1;
        }
        let minutes = start.elapsed().as_secs_f64() / 60.0;
        let late = if minutes > f64::from(suite.budget_minutes) {
            "  OVER BUDGET"
        } else {
            ""
        };
        rows.push(format!(
            "{:<8} {:>5} passed {:>4} failed {:>4} skipped  {minutes:5.1} of {:>2} min{late}",
            suite.name, counts.passed, counts.failed, counts.skipped, suite.budget_minutes
        ));
        total.add(&counts);
    }
    println!("\n{}", rows.join("\n"));
    if total.skipped > 0 && !all {
        println!(
            "{} skipped: `cargo xtask test --all` runs the long ones too",
            total.skipped
        );
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(ExitCode::from(u8::from(total.failed > 0)))
}

fn native(context: &Context) -> Result<Counts> {
    let has_nextest = process::succeeds(context.workspace.cargo("nextest").arg("--version"));
    let mut test = if has_nextest {
        let mut test = context.workspace.cargo("nextest");
        test.args(["run", "--workspace", "--profile", "ci"]);
        if context.all {
            test.args(["--run-ignored", "all"]);
        }
        test
    } else {
        let mut test = context.workspace.cargo("test");
        test.args([
            "--workspace",
            "--lib",
            "--bins",
            "--tests",
            "--no-fail-fast",
        ]);
        if context.all {
            test.args(["--", "--include-ignored"]);
        }
        test
    };
    setup::choose_driver(&mut test);
    Counts::of_command(&mut test)
}

/// Builds to the end, for some faults show only when code is generated. Each crate counts as one test; one build for all
/// of them settles their features once.
fn wasm32(context: &Context) -> Result<Counts> {
    let packages = context.workspace.library_packages();
    let mut build = context.toolchain()?.cargo("build");
    build.args(["--lib", "--keep-going", "--target", wasm::TARGET]);
    for package in &packages {
        build.args(["--package", package]);
    }
    process::run(&mut build)?;
    println!(
        "{} library crates compiled for {}",
        packages.len(),
        wasm::TARGET
    );
    Ok(Counts {
        passed: packages.len() as u64,
        ..Counts::default()
    })
}

#[cfg(test)]
mod tests {
    use super::{ClosingLines, Counts};

    #[test]
    fn a_failed_test_counts_once_however_often_its_output_is_shown() {
        let mut closing = ClosingLines::default();
        for line in [
            "test result: FAILED. 0 passed; 1 failed; 0 ignored",
            "     Summary [   1.2s] 9 tests run: 8 passed, 1 failed, 3 skipped",
            "test result: FAILED. 0 passed; 1 failed; 0 ignored",
        ] {
            closing.take(line);
        }
        let counts = closing.counts();
        assert_eq!((counts.passed, counts.failed, counts.skipped), (8, 1, 3));
    }

    #[test]
    fn closing_lines_of_every_runner_are_read() {
        let counts = |passed, failed, skipped| Counts {
            passed,
            failed,
            skipped,
        };
        for (line, expected) in [
            (
                "     Summary [   1.234s] 9 tests run: 7 passed (1 slow), 2 failed, 3 skipped",
                counts(7, 2, 3),
            ),
            (
                "     Summary [   0.1s] 4/9 tests run: 3 passed, 1 timed out, 3 skipped",
                counts(3, 1, 3),
            ),
            (
                "test result: FAILED. 7 passed; 2 failed; 3 ignored; 0 measured; 4 filtered out; finished in 0.00s",
                counts(7, 2, 3),
            ),
            ("12 passed, 1 failed", counts(12, 1, 0)),
            ("base: 3 shaders on null, 1 failed", counts(0, 0, 0)),
            ("the test passed, it failed nothing", counts(0, 0, 0)),
        ] {
            assert_eq!(Counts::of_line(line), expected, "{line}");
        }
    }
}
