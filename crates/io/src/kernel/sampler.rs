//! Takes periodic snapshots in a separate thread.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::figures::{Figures, Levels};
use super::snapshot::{Scope, Snapshot, Target};
use crate::sync::{Condvar, Mutex};
use crate::thread::{Thread, spawn};

/// Takes snapshots of a target until it is stopped. Rates are computed over the whole time. Current
/// amounts, such as the number of dirty pages, are averaged over all snapshots. If the observed
/// process ends before the sampler is stopped, the last values of the process are used.
#[derive(Debug)]
pub struct Sampler {
    stop: Arc<Stop>,
    thread: Option<Thread<Sampled>>,
}

#[derive(Debug, Default)]
struct Stop {
    is_set: Mutex<bool>,
    changed: Condvar,
}

/// The first and the last snapshot so far. `levels` has the averages, over all snapshots, of the
/// figures that are not counters.
#[derive(Debug)]
struct Sampled {
    first: Snapshot,
    last: Snapshot,
    levels: Levels,
    level_of: Option<Scope>,
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
                let mut sampled = Sampled::new(first);
                while !stop.wait(interval) {
                    sampled.add(Snapshot::take(&target));
                }
                sampled.add(Snapshot::take(&target));
                sampled
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Takes the last snapshot and returns the figures of the time since the first one. `None` if
    /// the thread panicked.
    pub fn stop(mut self) -> Option<Figures> {
        self.stop.set();
        let sampled = self.thread.take()?.join().ok()?;
        Some(sampled.figures())
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

impl Sampled {
    fn new(first: Snapshot) -> Self {
        let mut levels = Levels::default();
        let page_cache = first.page_cache();
        if let Some((_, page_cache)) = page_cache {
            levels.add(page_cache);
        }
        let level_of = page_cache.map(|(scope, _)| scope);
        Self { last: first.clone(), first, levels, level_of }
    }

    fn add(&mut self, mut snapshot: Snapshot) {
        snapshot.keep_what_ended(&self.last);
        if let Some((scope, page_cache)) = snapshot.page_cache()
            && Some(scope) == self.level_of
        {
            self.levels.add(page_cache);
        }
        self.last = snapshot;
    }

    fn figures(&self) -> Figures {
        let mut figures = self.last.since(&self.first);
        figures.set_levels(&self.levels);
        figures
    }
}
