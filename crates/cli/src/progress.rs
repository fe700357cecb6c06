//! Progress of a long command.
//!
//! It is shown only if standard error is a terminal and standard output is not.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often the picture changes.
const TICK: Duration = Duration::from_millis(120);

/// A line that says how far it is; gone when this is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A count that goes up to no known end: `what` is counted, in the plural.
    pub(crate) fn counting(what: &str) -> Self {
        let template = format!("{{spinner}} {{human_pos}} {what} in {{elapsed}}  {{wide_msg}}");
        Self::shown(ProgressBar::no_length(), &template)
    }

    /// Bytes of a known sum.
    pub(crate) fn bytes() -> Self {
        let template = "{bar:30} {bytes} of {total_bytes}  {bytes_per_sec}  {wide_msg}";
        Self::shown(ProgressBar::new(0), template)
    }

    /// Says how many bytes of how many are done.
    pub(crate) fn set(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Says what is being worked on.
    pub(crate) fn at(&self, what: impl Into<String>) {
        if !self.bar.is_hidden() {
            self.bar.set_message(what.into());
        }
    }

    /// Counts some more.
    pub(crate) fn add(&self, count: u64) {
        self.bar.inc(count);
    }

    fn shown(bar: ProgressBar, template: &str) -> Self {
        if !io::stderr().is_terminal() || io::stdout().is_terminal() {
            return Self { bar: ProgressBar::hidden() };
        }
        // A template that is wrong would show the plain bar.
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
