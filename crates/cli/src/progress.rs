//! How far loading has come, on stderr, if that is a terminal.

use std::io::IsTerminal;

use foretoken_engine::{LoadPhase, LoadProgress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar while a model loads.
pub struct LoadBar(ProgressBar);

impl LoadBar {
    /// A bar that shows itself only to a terminal.
    pub fn new(name: &str) -> Self {
        let bar = ProgressBar::no_length();
        bar.set_draw_target(if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        });
        let style = ProgressStyle::with_template("{msg} {bar:30} {bytes} of {total_bytes}")
            .expect("the template is well-formed");
        bar.set_style(style);
        bar.set_message(format!("loading {name}"));
        Self(bar)
    }

    /// Shows a new state.
    pub fn update(&self, progress: LoadProgress) {
        match progress.phase {
            LoadPhase::Upload => {
                self.0.set_length(progress.total);
                self.0.set_position(progress.loaded);
            }
            _ => self.0.set_message("checking kernels"),
        }
    }
}

impl Drop for LoadBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
