//! Progress of a long command.
//!
//! Progress is shown only if standard error is a terminal and standard output is not a terminal.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Interval between two updates of the progress line.
const TICK: Duration = Duration::from_millis(120);

/// A progress line on standard error, removed when the value is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Creates a counter without a known total. `what` is the name of the counted items, in the
    /// plural.
    pub(crate) fn counting(what: &str) -> Self {
        let template = format!("{{spinner}} {{human_pos}} {what} in {{elapsed}}  {{wide_msg}}");
        Self::shown(ProgressBar::no_length(), &template)
    }

    /// Creates a bar for bytes of a known total.
    pub(crate) fn bytes() -> Self {
        let template = "{bar:30} {bytes} of {total_bytes}  {bytes_per_sec}  {wide_msg}";
        Self::shown(ProgressBar::new(0), template)
    }

    /// Sets the number of bytes done, and their total.
    pub(crate) fn set(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Sets the counter.
    pub(crate) fn reach(&self, count: u64) {
        self.bar.set_position(count);
    }

    /// Shows the name of the item that is being processed.
    pub(crate) fn at(&self, what: impl Into<String>) {
        if !self.bar.is_hidden() {
            self.bar.set_message(what.into());
        }
    }

    /// Adds to the counter.
    pub(crate) fn add(&self, count: u64) {
        self.bar.inc(count);
    }

    fn shown(bar: ProgressBar, template: &str) -> Self {
        if !io::stderr().is_terminal() || io::stdout().is_terminal() {
            return Self { bar: ProgressBar::hidden() };
        }
        // With an invalid template the default bar is shown.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self { bar }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
