//! The progress of a client that sends a request or reads a reply.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tailwater_io::sync::Mutex;
use tokio::time::Instant;

/// Slowest rate of a transfer that keeps its memory while others wait for it, in bytes per second.
pub(crate) const SLOWEST: u64 = 1 << 20;
/// Maximum time that a transfer can be ahead of [`SLOWEST`]. Bytes that were moved fast do not
/// allow a longer stall later.
const AHEAD_MAX: Duration = Duration::from_secs(1);

/// How many bytes a transfer has moved, and how long the server has waited for its client.
///
/// Time in which the server itself works, or waits for memory or the disk, does not count. A
/// transfer is *behind* if the server has waited longer than [`SLOWEST`] and the transfer's
/// patience allow, and is waiting now. A transfer that was fast before is at most [`AHEAD_MAX`]
/// ahead.
#[derive(Debug)]
pub(crate) struct Progress {
    moved: AtomicUsize,
    times: Mutex<Times>,
}

#[derive(Debug)]
struct Times {
    /// Time that the transfer may wait in addition to the time that [`SLOWEST`] allows, before it
    /// counts as behind.
    patience: Duration,
    /// Total time of the waits that have ended.
    waited: Duration,
    /// Total time of the waits at which the transfer becomes behind if it moves no more bytes,
    /// without the patience.
    due: Duration,
    /// Start of the current wait; `None` if the server is not waiting for the client.
    waiting_since: Option<Instant>,
}

impl Progress {
    /// Creates the progress of a transfer that has not begun.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { moved: AtomicUsize::new(0), times: Mutex::new(Times::new(patience)) }
    }

    /// Begins again: forgets the bytes and the time so far.
    pub(crate) fn restart(&self, patience: Duration) {
        self.moved.store(0, Ordering::Relaxed);
        *self.times.lock() = Times::new(patience);
    }

    /// Counts as behind until the next [`Self::restart`]: nothing is transferred.
    pub(crate) fn idle(&self) {
        self.restart(Duration::ZERO);
        self.times.lock().waiting_since = Some(Instant::now());
    }

    /// Counts bytes that were moved.
    pub(crate) fn add(&self, bytes: usize) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        let mut times = self.times.lock();
        let latest = times.waited(Instant::now()) + AHEAD_MAX;
        times.due = latest.min(times.due + time_of(bytes));
    }

    /// Returns the number of bytes moved so far.
    pub(crate) fn moved(&self) -> usize {
        self.moved.load(Ordering::Relaxed)
    }

    /// Counts the time as waiting for the client, until the returned value is dropped.
    pub(crate) fn wait(&self) -> Wait<'_> {
        self.times.lock().waiting_since = Some(Instant::now());
        Wait(self)
    }

    /// Returns the time for which the server has waited for the client.
    pub(crate) fn waited(&self, now: Instant) -> Duration {
        self.times.lock().waited(now)
    }

    /// Returns the time for which the slowest permitted transfer of the bytes moved so far may
    /// take.
    pub(crate) fn allowed(&self) -> Duration {
        time_of(self.moved())
    }

    /// Returns how long the transfer is behind; `None` if it is not, or does not wait now.
    pub(super) fn lag(&self, now: Instant) -> Option<Duration> {
        let times = self.times.lock();
        times.waiting_since?;
        times.waited(now).checked_sub(times.due + times.patience)
    }
}

/// Returns the time for which the slowest permitted transfer of `bytes` bytes may take.
fn time_of(bytes: usize) -> Duration {
    Duration::from_micros(bytes as u64 * 1_000_000 / SLOWEST)
}

impl Times {
    fn new(patience: Duration) -> Self {
        Self { patience, waited: Duration::ZERO, due: Duration::ZERO, waiting_since: None }
    }

    fn waited(&self, now: Instant) -> Duration {
        let current = self.waiting_since.map(|since| now.saturating_duration_since(since));
        self.waited + current.unwrap_or_default()
    }
}

/// A wait for the client, which ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Wait<'a>(&'a Progress);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut times = self.0.times.lock();
        times.waited = times.waited(Instant::now());
        times.waiting_since = None;
    }
}
