//! The compaction scheduler.

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Weak};

use tailwater_io::stream::Workers;

use crate::context::Context;
use crate::version::Versions;

/// Decides when compactions run, and runs them. Its methods are in
///
/// - `rounds`: when a compaction runs, and the compaction itself
/// - `claim`, `installation`: its begin and its end
/// - `manual`: compactions that a caller requests
pub(crate) struct CompactionScheduler {
    pub(super) context: Arc<Context>,
    pub(super) versions: Arc<Versions>,
    /// Threads that write the full buffers of compactions and ingestions. Flushes have their own,
    /// so that no flush waits for a compaction or for a lock held by a low-priority thread. The
    /// environment has them while a database is open; none if background work is done inline.
    pub(super) writers: Weak<Workers>,
    /// Threads that read compaction inputs ahead if the system has no asynchronous I/O; as
    /// `writers`.
    pub(super) input_readers: Weak<Workers>,
    /// The sequence number of the oldest snapshot, as of the last time that the release of a
    /// snapshot led to the request of a compaction.
    pub(super) oldest_snapshot: AtomicU64,
    /// The time at which a table becomes due for compaction because of its age, in seconds since
    /// 1970; `u64::MAX` if none does. It is computed whenever no compaction is due.
    pub(super) next_due_s: AtomicU64,
    /// The last time at which a thread looked for a due compaction, in nanoseconds on the monotonic
    /// clock.
    pub(super) last_check_ns: AtomicU64,
    /// Round-robin counter that selects the column family to compact next.
    pub(super) next_compacted: AtomicUsize,
}

impl CompactionScheduler {
    /// Creates the compaction scheduler of a database. `writers` are threads that write full
    /// buffers, and `input_readers` threads that read inputs ahead; they belong to the environment.
    pub(crate) fn new(
        context: Arc<Context>,
        versions: Arc<Versions>,
        writers: Weak<Workers>,
        input_readers: Weak<Workers>,
    ) -> Self {
        let last_check_ns = AtomicU64::new(context.clock.monotonic_ns());
        Self {
            context,
            versions,
            writers,
            input_readers,
            oldest_snapshot: AtomicU64::default(),
            next_due_s: AtomicU64::new(u64::MAX),
            last_check_ns,
            next_compacted: AtomicUsize::default(),
        }
    }

    /// Returns the threads that write the full buffers of compactions and ingestions.
    pub(crate) fn writers(&self) -> Option<Arc<Workers>> {
        self.writers.upgrade()
    }
}
