//! Takes periodic snapshots in a separate thread.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::figures::{Figures, Levels};
use super::snapshot::{Scope, Snapshot, Target};
use crate::sync::{Condvar, Mutex};
use crate::thread::{Thread, spawn};

/// Length of the periods of [`Sampled::seconds`], in nanoseconds.
const SECOND_NS: u64 = 1_000_000_000;

/// Takes snapshots of a target until it is stopped. Rates are computed over the whole time. Current
/// amounts, such as the number of dirty pages, are averaged over all snapshots. If the observed
/// process ends before the sampler is stopped, the last values of the process are used.
#[derive(Debug)]
pub struct Sampler {
    stop: Arc<Stop>,
    thread: Option<Thread<Samples>>,
}

/// What a sampler has measured.
#[derive(Debug, Clone, Default)]
pub struct Sampled {
    /// The figures of the whole time.
    pub figures: Figures,
    /// The figures of consecutive periods of about one second, from the start on. A period lasts
    /// until the first snapshot that is at least a second later than the snapshot before the
    /// period. The rest, which is shorter, is left out.
    pub seconds: Vec<Figures>,
}

#[derive(Debug, Default)]
struct Stop {
    is_set: Mutex<bool>,
    changed: Condvar,
}

/// The first and the last snapshot so far.
#[derive(Debug)]
struct Samples {
    whole: Period,
    /// The current period of about one second.
    second: Period,
    last: Snapshot,
    level_of: Option<Scope>,
    seconds: Vec<Figures>,
}

/// A period from a snapshot on. `levels` has the averages, over all its snapshots, of the figures
/// that are not counters.
#[derive(Debug)]
struct Period {
    first: Snapshot,
    levels: Levels,
}

impl Sampler {
    /// Takes the first snapshot, and starts a thread that takes another after each `interval`,
    /// usually 100 ms to 1 s. A snapshot costs about 200 us of processor time.
    ///
    /// # Errors
    /// I/O errors, if the thread cannot be started.
    pub fn start(target: Target, interval: Duration) -> io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let first = Snapshot::take(&target);
        let thread = spawn("kernel figures", {
            let stop = Arc::clone(&stop);
            move || {
                let mut samples = Samples::new(first);
                while !stop.wait(interval) {
                    samples.add(Snapshot::take(&target));
                }
                samples.add(Snapshot::take(&target));
                samples
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Takes the last snapshot and returns the figures of the time since the first one. `None` if
    /// the thread panicked.
    pub fn stop(mut self) -> Option<Sampled> {
        self.stop.set();
        let samples = self.thread.take()?.join().ok()?;
        Some(Sampled { figures: samples.whole.figures(&samples.last), seconds: samples.seconds })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // After this function, the field `thread` is dropped, which joins the thread.
        self.stop.set();
    }
}

impl Stop {
    fn set(&self) {
        *self.is_set.lock() = true;
        self.changed.notify_all();
    }

    /// Waits until the stop flag is set, but at most for `limit`, and returns whether the flag is
    /// set. May return early after a spurious wakeup, which only causes an additional snapshot.
    fn wait(&self, limit: Duration) -> bool {
        let is_set = self.is_set.lock();
        *is_set || *self.changed.wait_timeout(is_set, limit)
    }
}

impl Samples {
    fn new(first: Snapshot) -> Self {
        let level_of = first.page_cache().map(|(scope, _)| scope);
        let period = || Period { first: first.clone(), levels: levels_of(&first) };
        let (whole, second, seconds) = (period(), period(), Vec::new());
        Self { whole, second, last: first, level_of, seconds }
    }

    fn add(&mut self, mut snapshot: Snapshot) {
        snapshot.keep_what_ended(&self.last);
        if let Some((scope, page_cache)) = snapshot.page_cache()
            && Some(scope) == self.level_of
        {
            self.whole.levels.add(page_cache);
            self.second.levels.add(page_cache);
        }
        if snapshot.at_ns.saturating_sub(self.second.first.at_ns) >= SECOND_NS {
            self.seconds.push(self.second.figures(&snapshot));
            self.second = Period { first: snapshot.clone(), levels: levels_of(&snapshot) };
        }
        self.last = snapshot;
    }
}

fn levels_of(snapshot: &Snapshot) -> Levels {
    let mut levels = Levels::default();
    if let Some((_, page_cache)) = snapshot.page_cache() {
        levels.add(page_cache);
    }
    levels
}

impl Period {
    fn figures(&self, last: &Snapshot) -> Figures {
        let mut figures = last.since(&self.first);
        figures.set_levels(&self.levels);
        figures
    }
}
