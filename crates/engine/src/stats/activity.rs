//! Counters of a database's activity since it was opened. Every database keeps them: they cost a
//! few additions per group of writes, and nothing for reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tailwater_io::sync::Mutex;

use tailwater_io::Clock;

/// A counter. Any thread may add to it.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `by` to the counter.
    #[inline]
    pub(crate) fn add(&self, by: u64) {
        self.0.fetch_add(by, Relaxed);
    }

    /// Returns the counter's value.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Counters of a database's activity since it was opened.
#[derive(Debug)]
pub(crate) struct Activity {
    clock: Arc<dyn Clock>,
    opened_ns: u64,
    /// Bytes of the batches that were written to the WAL.
    pub(crate) wal_bytes: Counter,
    /// Number of WAL syncs that writes requested.
    pub(crate) wal_syncs: Counter,
    /// Bytes of the batches that were written, with or without the WAL.
    pub(crate) bytes_written: Counter,
    /// Number of operations in the batches that were written.
    pub(crate) keys_written: Counter,
    /// Number of batches that another thread wrote, as the leader of their write group.
    pub(crate) writes_by_other: Counter,
    /// Number of batches whose own thread wrote them, as the leader of their write group.
    pub(crate) writes_by_self: Counter,
    /// Number of batches that were written to the WAL.
    pub(crate) writes_with_wal: Counter,
    /// Time that writers waited because writes were slowed down or stopped, in microseconds.
    pub(crate) stall_micros: Counter,
    /// Number of write groups that a write buffer manager stopped.
    pub(crate) write_buffer_manager_stops: Counter,
    /// Number of attempts at flushes and compactions in the background that failed.
    pub(crate) background_errors: Counter,
    dumps: Mutex<Dumps>,
}

/// When statistics were last written to the LOG, and the counts at that time.
#[derive(Debug, Default)]
struct Dumps {
    last_ns: u64,
    at_last: Done,
}

/// The counts of an [`Activity`] at a point in time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Done {
    /// The time since the database was opened, in seconds.
    pub(crate) seconds: f64,
    pub(crate) wal_bytes: u64,
    pub(crate) wal_syncs: u64,
    pub(crate) bytes_written: u64,
    pub(crate) keys_written: u64,
    pub(crate) writes_by_other: u64,
    pub(crate) writes_by_self: u64,
    pub(crate) writes_with_wal: u64,
    pub(crate) stall_micros: u64,
    pub(crate) write_buffer_manager_stops: u64,
}

impl Activity {
    /// Creates the counters of a database that is being opened at this time.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let opened_ns = clock.monotonic_ns();
        Self {
            clock,
            opened_ns,
            wal_bytes: Counter::default(),
            wal_syncs: Counter::default(),
            bytes_written: Counter::default(),
            keys_written: Counter::default(),
            writes_by_other: Counter::default(),
            writes_by_self: Counter::default(),
            writes_with_wal: Counter::default(),
            stall_micros: Counter::default(),
            write_buffer_manager_stops: Counter::default(),
            background_errors: Counter::default(),
            dumps: Mutex::new(Dumps { last_ns: opened_ns, at_last: Done::default() }),
        }
    }

    /// Returns the database's clock.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Returns the time since the database was opened, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.clock.monotonic_ns().saturating_sub(self.opened_ns) as f64 / 1e9
    }

    /// Returns the current values of the activity counters.
    pub(crate) fn done(&self) -> Done {
        Done {
            seconds: self.seconds(),
            wal_bytes: self.wal_bytes.get(),
            wal_syncs: self.wal_syncs.get(),
            bytes_written: self.bytes_written.get(),
            keys_written: self.keys_written.get(),
            writes_by_other: self.writes_by_other.get(),
            writes_by_self: self.writes_by_self.get(),
            writes_with_wal: self.writes_with_wal.get(),
            stall_micros: self.stall_micros.get(),
            write_buffer_manager_stops: self.write_buffer_manager_stops.get(),
        }
    }

    /// Returns the values that the activity counters had when statistics were last written to the
    /// LOG.
    pub(crate) fn done_at_last_dump(&self) -> Done {
        self.dumps.lock().at_last
    }

    /// Whether statistics are due to be written to the LOG. They are due every `period_s` seconds,
    /// or never if `period_s` is 0. A caller that gets true must write them, because returning true
    /// starts the next period.
    pub(crate) fn is_dump_due(&self, period_s: u64) -> bool {
        let now_ns = self.clock.monotonic_ns();
        let mut dumps = self.dumps.lock();
        let is_due = period_s > 0
            && now_ns.saturating_sub(dumps.last_ns) >= period_s.saturating_mul(1_000_000_000);
        if is_due {
            dumps.last_ns = now_ns;
        }
        is_due
    }

    /// Records the counter values that were written to the LOG.
    pub(crate) fn dumped(&self, done: Done) {
        self.dumps.lock().at_last = done;
    }
}
