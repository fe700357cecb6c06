//! The open tables of all column families of a database.
//!
//! If too many tables are open, a clock hand visits them. It passes over tables that were read
//! since its last visit, and closes the first table that was not. If the reader of a closed table
//! is still in use, its file stays open until the reader is released.
//!
//! The bound on the number of open tables is the option `max_open_files`, or the tables' share of
//! the process's limit on open files ([`OpenShares`]). Other code in the process may use more
//! descriptors than were reserved for it. So when the process runs out of descriptors, every
//! database in the process closes some of its tables and lowers its bound, which then recovers
//! slowly ([`tailwater_io::descriptors`]).

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tailwater_io::DescriptorBudget;
use tailwater_io::descriptors::{Exhausted, KeepsFilesOpen};
use tailwater_io::sync::Mutex;

use crate::epoch::{Bin, EpochCell};
use crate::stats::InfoLog;
use crate::table::{FileMetadata, OpenShares, TableReader};

/// No limit on open tables.
const UNBOUNDED: usize = usize::MAX;

/// When the process has no file descriptor left, each database closes 1/RELIEF_PART of its open
/// tables, but at least [`RELIEF_MIN`].
const RELIEF_PART: usize = 8;
const RELIEF_MIN: usize = 16;

/// After a shortage of file descriptors has lowered the bound on open tables, opening a table may
/// require closing another one. After every CLOSED_PER_GROWTH such openings, the bound grows by
/// one.
const CLOSED_PER_GROWTH: usize = 32;
/// Minimum length of the list of open tables at which the entries of deleted tables are removed
/// from it.
const PRUNED_MIN: usize = 1024;

/// A table's reader, if the table is open. The table cache sets it, and [`OpenTables`] clears it.
#[derive(Debug, Default)]
pub(crate) struct OpenReader {
    pub(super) cell: EpochCell<TableReader>,
    /// Held while the table is opened, so that only one thread reads its metadata.
    pub(super) opening: Mutex<()>,
    /// Whether the table was read since the last visit of the clock hand.
    pub(super) was_read: AtomicBool,
}

impl OpenReader {
    /// Returns the reader, if the table is open.
    pub(crate) fn get(&self) -> Option<Arc<TableReader>> {
        self.cell.load_arc()
    }

    /// Closes the table, whose reader is retired into `bin`, the bin of its database.
    fn close(&self, bin: &Bin) {
        self.cell.store_in(bin, None);
    }
}

impl Drop for OpenReader {
    /// Closes the table. Its reader knows the bin of the database; the cell, which was created
    /// without a database, does not.
    fn drop(&mut self) {
        self.cell.release_by(TableReader::bin);
    }
}

/// The open tables of all column families of a database.
#[derive(Debug)]
pub(crate) struct OpenTables {
    /// Maximum number of open tables; [`UNBOUNDED`] for no limit.
    capacity: AtomicUsize,
    /// The value to which `capacity` recovers after a shortage of file descriptors has lowered it.
    share: AtomicUsize,
    /// Whether each read marks its table as read. This is so while the number of open tables is
    /// near the maximum: the clock hand closes tables without this mark first.
    tracks_reads: AtomicBool,
    hand: Mutex<ClockHand>,
    /// The bin of the database.
    bin: Bin,
    /// The process's limit on open files, if this limit rather than `max_open_files` determines
    /// `capacity`; otherwise 0.
    limited_by: AtomicUsize,
    /// The maximum number of open tables that was last reported in the LOG; 0 if none was reported.
    reported: AtomicUsize,
    info_log: OnceLock<Arc<InfoLog>>,
    /// The budget from whose limit `share` was calculated; `None` without a limit.
    budget: Option<DescriptorBudget>,
}

#[derive(Debug, Default)]
struct ClockHand {
    /// The open tables, in the order in which the clock hand visits them to find one to close.
    open: VecDeque<Weak<FileMetadata>>,
    /// Length of `open` at which the entries of deleted tables are removed next.
    pruned_at: usize,
    /// Number of times that opening a table closed others while `capacity` was below `share`.
    closed: usize,
}

impl OpenTables {
    /// Creates the empty set of a database's open tables, whose files are counted in `budget`. The
    /// readers of closed tables are retired into `bin`.
    pub(crate) fn new(shares: OpenShares, budget: &DescriptorBudget, bin: Bin) -> Arc<Self> {
        let tables = Arc::new(Self { budget: Some(budget.clone()), bin, ..Self::default() });
        tables.set_bound(shares);
        tables
    }

    /// Returns the maximum number of open tables; [`usize::MAX`] for no limit.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Whether each read must mark its table as read. This is so while the number of open tables is
    /// near the maximum: tables without this mark are closed first.
    #[inline]
    pub(crate) fn tracks_reads(&self) -> bool {
        self.tracks_reads.load(Ordering::Relaxed)
    }

    /// Sets the LOG. If the process's limit on open files causes tables to be closed, that is
    /// reported in the LOG, immediately if there are already more tables than may be open. `tables`
    /// is the number of tables.
    pub(crate) fn report_to(&self, info_log: &Arc<InfoLog>, tables: usize) {
        let _ = self.info_log.set(Arc::clone(info_log));
        if tables > self.capacity() {
            self.report_limit();
        }
    }

    /// Changes the maximum number of open tables. If more tables are open, closes the excess ones.
    /// `files` are the tables of all versions.
    pub(crate) fn change(&self, shares: OpenShares, files: &[Arc<FileMetadata>]) {
        {
            let mut hand = self.hand.lock();
            let opened = files.iter().filter(|file| file.reader.get().is_some());
            let listed: HashSet<_> = files.iter().map(Arc::as_ptr).collect();
            // New tables that are not yet in a version are not in `files`, so their entries are
            // kept.
            hand.open.retain(|file| file.strong_count() > 0 && !listed.contains(&file.as_ptr()));
            hand.open.extend(opened.map(Arc::downgrade));
            self.set_bound(shares);
            hand.close_beyond(self.capacity(), None, &self.bin);
            self.track_reads(hand.open.len());
        }
        self.bin.collect();
        if files.len() > self.capacity() {
            self.report_limit();
        }
    }

    fn set_bound(&self, shares: OpenShares) {
        let share = shares.tables.unwrap_or(UNBOUNDED);
        self.share.store(share, Ordering::Relaxed);
        self.capacity.store(share, Ordering::Relaxed);
        self.limited_by.store(shares.limited_by.unwrap_or(0), Ordering::Relaxed);
    }

    /// Adds an open table, and closes others if there are too many.
    pub(super) fn keep(&self, file: &Arc<FileMetadata>) {
        let closed = {
            let mut hand = self.hand.lock();
            hand.add(file);
            self.track_reads(hand.open.len());
            let closed = hand.close_beyond(self.capacity(), Some(file), &self.bin);
            if closed && self.capacity() < self.share.load(Ordering::Relaxed) {
                hand.closed += 1;
                if hand.closed.is_multiple_of(CLOSED_PER_GROWTH) {
                    self.capacity.fetch_add(1, Ordering::Relaxed);
                }
            }
            closed
        };
        if closed {
            // A closed table uses a file descriptor until its reader is freed. This call frees the
            // readers that no thread uses any more.
            self.bin.collect();
            self.report_limit();
        }
    }

    /// Makes reads mark their tables as read while the number of open tables is at least three
    /// quarters of the maximum, since tables may soon be closed.
    fn track_reads(&self, open: usize) {
        let is_near = open >= self.capacity() / 4 * 3;
        if self.tracks_reads() != is_near {
            self.tracks_reads.store(is_near, Ordering::Relaxed);
        }
    }

    #[cold]
    fn report_limit(&self) {
        let limit = self.limited_by.load(Ordering::Relaxed);
        let Some(info_log) = self.info_log.get().filter(|_| limit > 0) else { return };
        let (capacity, reported) = (self.capacity(), self.reported.load(Ordering::Relaxed));
        if reported == 0 || capacity <= reported / 2 {
            self.reported.store(capacity, Ordering::Relaxed);
            info_log.warn(format_args!(
                "this process may have {limit} files open (RLIMIT_NOFILE): at most {capacity} \
                 tables are kept open, whatever max_open_files says, and tables that were not \
                 read recently are closed"
            ));
        }
    }
}

impl KeepsFilesOpen for OpenTables {
    /// Closes some tables that are not in use. If the limit that was reached is the process's own,
    /// not the system's, `capacity` is lowered to the number of tables that remain open, but not
    /// below [`RELIEF_MIN`].
    fn close_some(&self, exhausted: Exhausted) -> bool {
        let mut hand = self.hand.lock();
        hand.prune();
        let open = hand.open.len();
        let closed = hand.close_unused((open / RELIEF_PART).max(RELIEF_MIN), &self.bin);
        if closed == 0 {
            return false;
        }
        if exhausted == Exhausted::Process {
            self.capacity.fetch_min((open - closed).max(RELIEF_MIN), Ordering::Relaxed);
            let limit = self.budget.as_ref().map_or(0, DescriptorBudget::limit);
            self.limited_by.store(limit, Ordering::Relaxed);
            self.tracks_reads.store(true, Ordering::Relaxed);
        }
        true
    }
}

impl Default for OpenTables {
    /// Creates a set without a limit. It belongs to no budget, so a shortage of file descriptors
    /// closes none of its tables.
    fn default() -> Self {
        Self {
            capacity: AtomicUsize::new(UNBOUNDED),
            share: AtomicUsize::new(UNBOUNDED),
            tracks_reads: AtomicBool::new(false),
            hand: Mutex::default(),
            bin: Bin::default(),
            limited_by: AtomicUsize::new(0),
            reported: AtomicUsize::new(0),
            info_log: OnceLock::new(),
            budget: None,
        }
    }
}

impl ClockHand {
    fn add(&mut self, file: &Arc<FileMetadata>) {
        if self.open.len() >= self.pruned_at.max(PRUNED_MIN) {
            self.prune();
            self.pruned_at = 2 * self.open.len();
        }
        self.open.push_back(Arc::downgrade(file));
    }

    /// Removes the entries of deleted tables. An entry is a weak reference, which keeps the memory
    /// of the table's metadata allocated.
    fn prune(&mut self) {
        self.open.retain(|file| file.strong_count() > 0);
    }

    /// Closes up to `count` tables that are not in use; recently read tables are closed last.
    /// Returns the number of closed tables.
    fn close_unused(&mut self, count: usize, bin: &Bin) -> usize {
        let (mut closed, mut visited, open) = (0, 0, self.open.len());
        while closed < count && visited < 2 * open {
            visited += 1;
            let Some(next) = self.open.pop_front() else { break };
            let Some(victim) = next.upgrade() else { continue };
            let was_read = victim.reader.was_read.swap(false, Ordering::Relaxed);
            // The file's metadata holds one reference, and `it` is another.
            let is_used = victim.reader.get().is_some_and(|it| Arc::strong_count(&it) > 2);
            if was_read || is_used {
                self.open.push_back(next);
            } else {
                victim.reader.close(bin);
                closed += 1;
            }
        }
        closed
    }

    /// Closes open tables until `capacity` are left; recently read tables are closed last. `newest`
    /// is the table that was just opened. It is treated as if it had not been read. Returns whether
    /// any table was closed.
    fn close_beyond(
        &mut self,
        capacity: usize,
        newest: Option<&Arc<FileMetadata>>,
        bin: &Bin,
    ) -> bool {
        let mut closed = false;
        let mut visited = 0;
        while self.open.len() > capacity && visited <= 2 * self.open.len() {
            visited += 1;
            let Some(next) = self.open.pop_front() else { break };
            let Some(victim) = next.upgrade() else { continue };
            let is_newest = newest.is_some_and(|newest| Arc::ptr_eq(&victim, newest));
            if victim.reader.was_read.swap(false, Ordering::Relaxed) && !is_newest {
                self.open.push_back(next);
            } else {
                victim.reader.close(bin);
                closed = true;
            }
        }
        closed
    }
}
