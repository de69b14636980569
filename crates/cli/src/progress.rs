//! How far fetching, loading and measuring have come, on stderr, if that is a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use foretoken_engine::{LoadPhase, LoadProgress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Only a terminal shows progress.
fn target() -> ProgressDrawTarget {
    if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    }
}

/// A line while something is done that is not counted.
pub struct Spinner(ProgressBar);

impl Spinner {
    /// A line that shows itself only to a terminal.
    pub fn new(what: &'static str) -> Self {
        let bar = ProgressBar::new_spinner();
        bar.set_draw_target(target());
        bar.set_style(ProgressStyle::with_template("{msg} {spinner}").expect("well-formed"));
        bar.set_message(what);
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A bar while a model loads.
pub struct LoadBar(ProgressBar);

impl LoadBar {
    /// A bar that shows itself only to a terminal.
    pub fn new(name: &str) -> Self {
        let bar = ProgressBar::no_length();
        bar.set_draw_target(target());
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

/// A bar while runs are timed.
pub struct RunBar(ProgressBar);

impl RunBar {
    /// A bar of so many runs that shows itself only to a terminal.
    pub fn new(runs: usize) -> Self {
        let bar = ProgressBar::new(runs as u64);
        bar.set_draw_target(target());
        let template = "{msg} {bar:30} run {pos} of {len}, {eta} left";
        bar.set_style(ProgressStyle::with_template(template).expect("the template is well-formed"));
        Self(bar)
    }

    /// Says what the next runs are of.
    pub fn name(&self, what: String) {
        self.0.set_message(what);
    }

    /// Counts a run.
    pub fn ran(&self) {
        self.0.inc(1);
    }
}

impl Drop for RunBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A bar while a model is fetched.
pub struct DownloadBar(ProgressBar);

impl DownloadBar {
    /// A bar of so many bytes that shows itself only to a terminal.
    pub fn new(name: &str, total: u64) -> Self {
        let bar = ProgressBar::new(total);
        bar.set_draw_target(target());
        let template = "{msg} {bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        bar.set_style(ProgressStyle::with_template(template).expect("the template is well-formed"));
        bar.set_message(name.to_owned());
        Self(bar)
    }

    /// Shows how many bytes are there.
    pub fn update(&self, bytes: u64) {
        self.0.set_position(bytes);
    }
}

impl Drop for DownloadBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
