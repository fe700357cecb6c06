//! The write buffer manager: a limit of the memory of memtables, which databases may share.
//!
//! A memtable counts its memory in a [`MemTableCharge`], one chunk of its arena at a time. A write
//! checks one flag. The flag is set from the moment on at which a limit is reached until a write
//! finds that no limit is reached any more.
//!
//! # Invariants
//!
//! - Only [`MemTableCharge`] changes the counts, and gives back exactly what it has added. So the
//!   counts are right even if the limit was set or removed while memtables existed.
//! - While a limit is reached, the flag is set, or the thread that has reached the limit is about
//!   to set it.
//! - A writer that stalls is woken after every change that could end its stall: memory that is
//!   freed, another limit, or the closing of a database.
//! - A thread that takes capacity from the cache holds a lock while it evicts blocks. No other lock
//!   is held while another is taken, and none while storage is accessed.

mod charge;
mod stall;
#[cfg(all(not(loom), test))]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tailwater_io::sync::Mutex;

use crate::block_cache::{BlockCache, SteppedCharge};
pub(crate) use charge::MemTableCharge;
pub(crate) use stall::Stalled;
use stall::Stalls;

/// A limit of the memory of memtables, for any number of databases. Any thread may use it.
///
/// - As the memory of the memtables that accept writes comes near the limit, each database flushes
///   its oldest memtable with its next write, or within about a second if nobody writes to it: from
///   7/8 of the limit on, or from half of it on if all memtables together have reached the limit.
/// - If stalls are allowed, writes wait while all memtables together have reached the limit. As
///   long as they wait, every database flushes its memtables, one after the other. If no database
///   has anything left to flush, the writes fail with
///   [`ErrorKind::Busy`](crate::ErrorKind::Busy) after 10 seconds.
/// - If it has a cache, the memory also counts against the capacity of the cache, in steps of 256
///   KiB. What does not fit exceeds the capacity, or if that is strict, is not counted there.
///
/// The memory of a memtable counts until it is freed. A memtable that was flushed stays in memory
/// while an iterator uses it. A database that is closed keeps its memtables for reads, and cannot
/// flush them, until its last handle is dropped. The same holds for a database that is open for
/// reading, and for a column family that was dropped. The closer such memory is to the limit, the
/// smaller are the tables that flushes write.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// use std::sync::Arc;
/// use tailwater::{Db, OpenOptions, WriteBufferManager};
///
/// // The memtables of both databases together have at most about 64 MiB.
/// let manager = Arc::new(WriteBufferManager::new(64 << 20, true));
/// let mut options = OpenOptions::default();
/// options.create_if_missing(true);
/// options.set_write_buffer_manager(Arc::clone(&manager));
/// let first = Db::open(directory.join("first"), &options)?;
/// let second = Db::open(directory.join("second"), &options)?;
/// first.put("key", "value")?;
/// second.put("key", "value")?;
/// assert!(manager.memory_usage() > 0 && manager.memory_usage() < manager.buffer_size());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct WriteBufferManager {
    /// Whether a limit may be reached. The only field that every write reads.
    is_near_limit: AtomicBool,
    buffer_size: AtomicUsize,
    allow_stall: AtomicBool,
    /// Memory of all memtables, in bytes.
    used: AtomicUsize,
    /// Memory of the memtables that accept writes, in bytes.
    active: AtomicUsize,
    /// Number of flushes that run, of all databases.
    running_flushes: AtomicUsize,
    /// The memory of all memtables, charged to a cache.
    cache: Option<Mutex<SteppedCharge>>,
    stalls: Stalls,
}

/// A running flush, until this value is dropped.
#[derive(Debug)]
pub(crate) struct RunningFlush<'m>(&'m WriteBufferManager);

impl Drop for RunningFlush<'_> {
    fn drop(&mut self) {
        self.0.running_flushes.fetch_sub(1, Ordering::SeqCst);
    }
}

impl WriteBufferManager {
    /// Creates a manager with a limit of `buffer_size` bytes; 0 means no limit. With `allow_stall`,
    /// writes wait while the limit is reached.
    pub fn new(buffer_size: usize, allow_stall: bool) -> Self {
        Self::build(buffer_size, allow_stall, None)
    }

    /// Like [`WriteBufferManager::new`], and counts the memory against the capacity of `cache`,
    /// even if there is no limit.
    pub fn with_cache(buffer_size: usize, cache: Arc<BlockCache>, allow_stall: bool) -> Self {
        Self::build(buffer_size, allow_stall, Some(cache))
    }

    fn build(buffer_size: usize, allow_stall: bool, cache: Option<Arc<BlockCache>>) -> Self {
        Self {
            is_near_limit: AtomicBool::new(false),
            buffer_size: AtomicUsize::new(buffer_size),
            allow_stall: AtomicBool::new(allow_stall),
            used: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            running_flushes: AtomicUsize::new(0),
            cache: cache.map(|cache| Mutex::new(SteppedCharge::new(cache))),
            stalls: Stalls::default(),
        }
    }

    /// Whether there is a limit.
    pub fn enabled(&self) -> bool {
        self.buffer_size() > 0
    }

    /// Whether the memory counts against the capacity of a cache.
    pub fn cost_to_cache(&self) -> bool {
        self.cache.is_some()
    }

    /// Whether writes wait while the limit is reached.
    pub fn allow_stall(&self) -> bool {
        self.allow_stall.load(Ordering::SeqCst)
    }

    /// Returns the limit in bytes; 0 if there is none.
    pub fn buffer_size(&self) -> usize {
        self.buffer_size.load(Ordering::SeqCst)
    }

    /// Returns the memory of all memtables in bytes. It is counted only if there is a limit or a
    /// cache.
    pub fn memory_usage(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    /// Returns the memory of the memtables that accept writes, in bytes. It is counted only if
    /// there is a limit.
    pub fn mutable_memtable_memory_usage(&self) -> usize {
        self.active.load(Ordering::SeqCst)
    }

    /// Returns the bytes of the cache's capacity that the manager has taken, a multiple of 256 KiB;
    /// 0 without a cache. They are fewer than [`WriteBufferManager::memory_usage`] if the cache has
    /// a strict capacity limit and no room left, because everything in it is in use.
    pub fn dummy_entries_in_cache_usage(&self) -> usize {
        self.cache.as_ref().map_or(0, |charge| charge.lock().bytes())
    }

    /// Returns the figures of the properties: each with a name for metrics, a description, and its
    /// value.
    fn figures(&self) -> [(&'static str, &'static str, usize); 5] {
        [
            ("buffer_size_bytes", "limit, 0 if there is none", self.buffer_size()),
            ("memory_bytes", "memtables", self.memory_usage()),
            (
                "mutable_memory_bytes",
                "memtables that accept writes",
                self.mutable_memtable_memory_usage(),
            ),
            ("cache_bytes", "charged to a cache", self.dummy_entries_in_cache_usage()),
            ("stalled_writers", "number of databases whose writes wait", self.stalls.count()),
        ]
    }

    /// Returns the limit and the memory, one per line, in bytes unless the line says otherwise.
    pub(crate) fn report(&self) -> String {
        let line = |(_, what, value)| format!("{what:<49} {value:>16}\n");
        self.figures().map(line).concat()
    }

    /// Returns the limit and the memory in Prometheus's text format.
    pub(crate) fn to_prometheus(&self) -> String {
        let metric = |(name, what, value)| {
            format!(
                "# HELP tailwater_write_buffer_manager_{name} Write buffer manager: {what}.\n\
                 # TYPE tailwater_write_buffer_manager_{name} gauge\n\
                 tailwater_write_buffer_manager_{name} {value}\n"
            )
        };
        self.figures().map(metric).concat()
    }

    /// Changes the limit, in bytes; 0 removes it. Stalls that the new limit does not require end.
    pub fn set_buffer_size(&self, buffer_size: usize) {
        self.buffer_size.store(buffer_size, Ordering::SeqCst);
        self.limits_changed();
    }

    /// Changes whether writes wait while the limit is reached.
    pub fn set_allow_stall(&self, allow_stall: bool) {
        self.allow_stall.store(allow_stall, Ordering::SeqCst);
        self.limits_changed();
    }

    fn limits_changed(&self) {
        self.note_limits();
        self.stalls.wake();
    }

    /// Whether a limit may be reached, so that a write must check [`Self::should_flush`] and
    /// [`Self::should_stall`].
    #[inline]
    pub(crate) fn is_near_limit(&self) -> bool {
        self.is_near_limit.load(Ordering::Relaxed)
    }

    /// Whether a database that writes should flush a memtable.
    pub(crate) fn should_flush(&self) -> bool {
        let (limit, active) = (self.buffer_size(), self.mutable_memtable_memory_usage());
        // If the limit is reached, but most of the memory is being flushed already, another flush
        // would hardly help.
        limit > 0
            && (active > limit - limit.div_ceil(8)
                || (self.memory_usage() >= limit && active >= limit / 2))
    }

    /// Whether writes should wait.
    pub(crate) fn should_stall(&self) -> bool {
        let limit = self.buffer_size();
        limit > 0 && self.memory_usage() >= limit && self.allow_stall()
    }

    /// Clears the flag that makes writes check the limits, unless a limit is reached.
    pub(crate) fn recheck_limits(&self) {
        // The flag is cleared first. If a limit is reached afterwards, either the check below or
        // the thread that reaches it sets the flag again.
        self.is_near_limit.store(false, Ordering::SeqCst);
        self.note_limits();
    }

    fn note_limits(&self) {
        if self.should_flush() || self.should_stall() {
            self.is_near_limit.store(true, Ordering::SeqCst);
        }
    }

    /// Notes that a flush runs in one of the databases, until the result is dropped.
    pub(crate) fn begin_flush(&self) -> RunningFlush<'_> {
        self.running_flushes.fetch_add(1, Ordering::SeqCst);
        RunningFlush(self)
    }

    /// Whether a flush runs in any of the databases.
    pub(crate) fn is_flushing(&self) -> bool {
        self.running_flushes.load(Ordering::SeqCst) > 0
    }

    /// Begins a stall of a writer.
    pub(crate) fn stall(&self) -> Stalled<'_> {
        self.stalls.begin()
    }

    /// Whether a writer stalls.
    pub(crate) fn has_stalled_writers(&self) -> bool {
        self.stalls.count() > 0
    }

    /// Wakes the writers that stall, so that they check whether they should still wait.
    pub(crate) fn wake(&self) {
        self.stalls.wake();
    }

    /// Adds to the counts the memory that a memtable has allocated.
    fn grow(&self, used: usize, active: usize) {
        self.active.fetch_add(active, Ordering::SeqCst);
        self.used.fetch_add(used, Ordering::SeqCst);
        self.charge_cache();
        self.note_limits();
    }

    /// Subtracts the memory of a memtable that accepts no more writes.
    fn seal(&self, active: usize) {
        self.active.fetch_sub(active, Ordering::SeqCst);
    }

    /// Subtracts memory that was freed.
    fn shrink(&self, used: usize) {
        self.used.fetch_sub(used, Ordering::SeqCst);
        self.charge_cache();
        self.stalls.wake();
    }

    fn charge_cache(&self) {
        if let Some(charge) = &self.cache {
            let mut charge = charge.lock();
            // Read under the lock, so that the last update is the one that sees the last change.
            charge.set_to(self.memory_usage());
        }
    }
}
