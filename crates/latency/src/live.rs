//! The live view of a measurement: what is measured, how far it is, and a line about it. It is
//! shown only if standard error is a terminal, and disappears with its value. Without a terminal
//! only the lines remain that experiments print anyway.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Interval between two updates of the elapsed time.
const TICK: Duration = Duration::from_millis(250);

/// The view of one measurement.
#[derive(Debug)]
pub struct Live {
    bar: ProgressBar,
    length: Option<Duration>,
}

impl Live {
    /// Shows the name of a measurement. `length` is its duration, if it is known.
    pub fn new(name: &str, length: Option<Duration>) -> Self {
        let (bar, progress) = match length {
            Some(length) => (ProgressBar::new(length.as_millis() as u64), "{bar:24}"),
            None => (ProgressBar::new_spinner(), "{spinner} {elapsed}"),
        };
        // With an invalid template the default bar is shown.
        if let Ok(style) =
            ProgressStyle::with_template(&format!("{{prefix}}  {progress}\n    {{msg}}"))
        {
            bar.set_style(style);
        }
        bar.set_prefix(name.to_owned());
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self { bar, length }
    }

    /// Shows the state of the measurement at this time since its start.
    pub fn show(&self, at: Duration, state: &str) {
        self.bar.set_position(at.as_millis() as u64);
        let left = self.length.map(|length| length.saturating_sub(at).as_secs());
        let left = left.map_or_else(String::new, |left| format!("{left} s left  "));
        self.bar.set_message(format!("{left}{state}"));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A number of measurements of similar length.
#[derive(Debug)]
pub struct Steps {
    total: usize,
    done: usize,
    start: Instant,
}

impl Steps {
    /// Begins this many measurements.
    pub fn new(total: usize) -> Self {
        Self { total, done: 0, start: Instant::now() }
    }

    /// Shows the next measurement until the returned value is dropped.
    pub fn next(&mut self, name: &str) -> Live {
        let live = Live::new(&format!("[{}/{}] {name}", self.done + 1, self.total), None);
        if self.done > 0 {
            let left = self.start.elapsed() * (self.total - self.done.min(self.total)) as u32;
            live.bar.set_message(format!("{} s left", (left / self.done as u32).as_secs()));
        }
        self.done += 1;
        live
    }
}
