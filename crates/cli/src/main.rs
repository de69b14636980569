//! The native binary `foretoken`.

mod aliases;
mod answer;
mod args;
mod colour;
mod commands;
mod device;
mod draft_file;
mod failure;
mod hub;
mod interrupt;
mod model_file;
mod progress;
mod room;
mod size;
mod stderr;
mod stdout;
mod tuning;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    quiet_driver();
    let cli = match args::Cli::try_parse().and_then(args::Cli::checked) {
        Ok(cli) => cli,
        Err(error) => return failure::usage(&error),
    };
    interrupt::install();
    let json = cli.command.json();
    match pollster::block_on(commands::run(cli.command)) {
        Ok(status) => status.exit_code(),
        Err(error) => failure::report(&error, json),
    }
}

/// Mesa's layer that picks a default device complains on stderr where there is no desktop session (in
/// containers, over ssh). We pick the device ourselves, so there the layer is told to stay out.
fn quiet_driver() {
    if cfg!(target_os = "linux") && std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        // SAFETY: this runs first in main, before any other thread exists.
        #[allow(unsafe_code)]
        unsafe {
            std::env::set_var("NODEVICE_SELECT", "1");
        }
    }
}
