//! `cargo xtask`: one command for set-up, models, checks and tests, on a fresh machine as on a used one.
//!
//! Nothing here is needed to build the libraries. Everything that a command needs it gets itself, says so first, and
//! does not look for again: a second run of any command works without a network.

mod apt;
mod bindgen;
mod browser;
mod chat;
mod check;
mod demo;
mod firefox;
mod generate;
mod model;
mod notice;
mod npm;
mod peers;
mod pkg;
mod process;
mod serve;
mod setup;
mod shorten;
mod test;
mod tint;
mod wasm;
mod web;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::apt::Consent;
use crate::workspace::Workspace;

#[derive(Parser)]
#[command(
    bin_name = "cargo xtask",
    about = "Set-up, models, checks and tests of Foretoken"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what running on this machine's GPU (or without one) needs
    Setup {
        /// Install without asking
        #[arg(long)]
        yes: bool,
    },
    /// Fetch test models into $FORETOKEN_MODELS (default ~/.cache/foretoken/models) and print their paths
    Model {
        /// Which ones; without a name, the default model
        aliases: Vec<String>,
    },
    /// Set up, fetch the model, build for release and run `foretoken chat ARGS`
    #[command(disable_help_flag = true)]
    Chat {
        /// Passed on as they are; `--yes` also lets set-up install without asking
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Check everything that needs no running test, cheapest first
    Check {
        /// Only these checks; without a name, all of them
        names: Vec<String>,
        /// Install without asking
        #[arg(long)]
        yes: bool,
    },
    /// Write the generated tables of plug-in folders
    Gen {
        /// Write nothing; fail where a table differs from its folder
        #[arg(long)]
        check: bool,
    },
    /// Set up, build, and serve the demo page with the default model on localhost
    Demo {
        /// The port; the first free one from 8080 on if absent
        #[arg(long)]
        port: Option<u16>,
        /// Install without asking
        #[arg(long)]
        yes: bool,
    },
    /// Build the npm package (`pkg/dist`, `pkg/wasm`) and the demo page (`target/web`): static files both
    Web {
        /// Install without asking
        #[arg(long)]
        yes: bool,
    },
    /// Measure the npm package beside wllama and transformers.js, in turn in one headless Chromium
    Peers(peers::Options),
    /// Set up and run the test suites
    Test {
        /// Run the long tests (`#[ignore]`) too
        #[arg(long)]
        all: bool,
        /// Only these suites; without a name, all of them
        suites: Vec<String>,
        /// Install without asking
        #[arg(long)]
        yes: bool,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    match command {
        Command::Setup { yes } => setup::vulkan(Consent::from_flag(yes))?,
        Command::Model { aliases } => {
            let aliases = match aliases.as_slice() {
                [] => vec![model::DEFAULT.to_owned()],
                _ => aliases,
            };
            for alias in aliases {
                println!("{}", model::fetch(&alias)?.display());
            }
        }
        Command::Chat { args } => return chat::run(&workspace, args),
        Command::Check { names, yes } => {
            return check::run(&workspace, &names, Consent::from_flag(yes));
        }
        Command::Gen { check } => {
            if check {
                generate::check(&workspace)?;
            } else {
                generate::write(&workspace)?;
            }
        }
        Command::Demo { port, yes } => {
            demo::run(&workspace, port, Consent::from_flag(yes))?;
        }
        Command::Web { yes } => {
            let toolchain = wasm::Toolchain::find(&workspace, Consent::from_flag(yes))?;
            web::build(&workspace, &toolchain)?;
            println!("{}", demo::assemble(&workspace)?.display());
        }
        Command::Peers(options) => peers::run(&workspace, &options)?,
        Command::Test { all, suites, yes } => {
            return test::run(&workspace, all, &suites, Consent::from_flag(yes));
        }
    }
    Ok(ExitCode::SUCCESS)
}
