//! Which tables are open, of all column families of a database.
//!
//! When there are too many, a hand goes round over them: one that was read since the hand last came
//! by stays, and the first that was not is closed. Readers that are in use live on until they are
//! let go.
//!
//! The bound is the option `max_open_files`, or what the process's limit leaves for tables
//! ([`OpenShares`]). Others in the process may take more of the limit than was left for them. So
//! when it has no descriptor left for something, every database in it closes some of its tables
//! ([`relieve`]), and keeps fewer open from then on; one more again, now and then,
//! while that is not needed.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tailwater_io::Exhausted;
use tailwater_io::sync::Mutex;

use crate::epoch;
use crate::stats::InfoLog;
use crate::table::OpenShares;
use crate::version::FileMetadata;

/// Stands for any number of open tables.
const UNBOUNDED: usize = usize::MAX;

/// One in this many open tables is closed when the process has no descriptor left, and so many at
/// least.
const RELIEF_PART: usize = 8;
const RELIEF_MIN: usize = 16;

/// The bound that relief has lowered grows by one for each so many tables that it has closed.
const CLOSED_PER_GROWTH: usize = 32;
/// How often relief looks whether what was closed is let go of, and how long it waits in between.
const LOOKS: usize = 20;
const BETWEEN_LOOKS: Duration = Duration::from_micros(100);

/// Tables that are not there any more are looked for among so many at least.
const PRUNED_MIN: usize = 1024;

/// Everything in the process that keeps files open for speed alone.
static KEEPERS: Mutex<Vec<Weak<dyn KeepsFilesOpen>>> = Mutex::new(Vec::new());

/// What keeps files open for speed alone.
pub(crate) trait KeepsFilesOpen: Send + Sync {
    /// Closes some, for others to have their descriptors; returns whether it closed any. It opens
    /// none meanwhile, nor does whoever holds a lock that it takes.
    fn close_some(&self, exhausted: Exhausted) -> bool;
}

/// Has some of the files closed that `keeper` keeps open when the process has no descriptor left.
pub(crate) fn relieve(keeper: Weak<dyn KeepsFilesOpen>) {
    tailwater_io::set_relief(close_some_of_all);
    let mut keepers = KEEPERS.lock();
    keepers.retain(|keeper| keeper.strong_count() > 0);
    keepers.push(keeper);
}

/// Which tables are open, of all column families of a database.
#[derive(Debug)]
pub(crate) struct OpenTables {
    /// How many may be; [`UNBOUNDED`] for any number.
    capacity: AtomicUsize,
    /// The same but for what relief takes away.
    share: AtomicUsize,
    /// Whether the hand needs to know which of them are read: it is about to close some.
    tracks_reads: AtomicBool,
    hand: Mutex<Hand>,
    /// The limit of the process, where that bounds them; else 0.
    limited_by: AtomicUsize,
    /// The bound as it was last said that tables are closed for that; 0 before.
    reported: AtomicUsize,
    info_log: OnceLock<Arc<InfoLog>>,
}

#[derive(Debug, Default)]
struct Hand {
    /// In the order in which the hand comes to them.
    open: VecDeque<Weak<FileMetadata>>,
    /// How many there are when those are taken out next that are no more.
    pruned_at: usize,
    /// How many were closed since relief lowered the bound.
    closed: usize,
}

impl OpenTables {
    /// None yet, of a database that keeps `shares`.
    pub(crate) fn new(shares: OpenShares) -> Arc<Self> {
        let tables = Arc::new(Self::default());
        tables.set_bound(shares);
        let keeper: Weak<Self> = Arc::downgrade(&tables);
        relieve(keeper);
        tables
    }

    /// How many tables are kept open at most; [`usize::MAX`] for any number.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Whether it matters which of them are read.
    #[inline]
    pub(crate) fn tracks_reads(&self) -> bool {
        self.tracks_reads.load(Ordering::Relaxed)
    }

    /// Says in the LOG, once, that the process's limit has tables closed, when it does or when
    /// there are more tables than it lets be open. `tables` is how many there are.
    pub(crate) fn report_to(&self, info_log: &Arc<InfoLog>, tables: usize) {
        let _ = self.info_log.set(Arc::clone(info_log));
        if tables > self.capacity() {
            self.report_limit();
        }
    }

    /// Keeps so many open from now on, and closes those that are too many. `files` are all that
    /// versions have.
    pub(crate) fn change(&self, shares: OpenShares, files: &[Arc<FileMetadata>]) {
        {
            let mut hand = self.hand.lock();
            let opened = files.iter().filter(|file| file.table.load_arc().is_some());
            let listed: HashSet<_> = files.iter().map(Arc::as_ptr).collect();
            // New tables that no version has yet are known here alone.
            hand.open.retain(|file| file.strong_count() > 0 && !listed.contains(&file.as_ptr()));
            hand.open.extend(opened.map(Arc::downgrade));
            self.set_bound(shares);
            hand.close_beyond(self.capacity(), None);
            self.track_reads(hand.open.len());
        }
        epoch::collect();
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

    /// Notes that a table is open, and closes others if there are too many.
    pub(super) fn keep(&self, file: &Arc<FileMetadata>) {
        let closed = {
            let mut hand = self.hand.lock();
            hand.add(file);
            self.track_reads(hand.open.len());
            let closed = hand.close_beyond(self.capacity(), Some(file));
            if closed && self.capacity() < self.share.load(Ordering::Relaxed) {
                hand.closed += 1;
                if hand.closed.is_multiple_of(CLOSED_PER_GROWTH) {
                    self.capacity.fetch_add(1, Ordering::Relaxed);
                }
            }
            closed
        };
        if closed {
            // A reader that was closed holds its file until it is collected, and the bound is on
            // files.
            epoch::collect();
            self.report_limit();
        }
    }

    /// Has reads noted when tables may soon be closed: three quarters of what may be are open.
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
                 tables are kept open, whatever max_open_files says, and others are closed that \
                 were not read lately"
            ));
        }
    }
}

impl KeepsFilesOpen for OpenTables {
    /// Closes some tables that nobody reads at this moment. Where the process ran into its own
    /// limit, it keeps no more open from now on than are left, but so many at least as it closes at
    /// a time.
    fn close_some(&self, exhausted: Exhausted) -> bool {
        let mut hand = self.hand.lock();
        hand.prune();
        let open = hand.open.len();
        let closed = hand.close_unused((open / RELIEF_PART).max(RELIEF_MIN));
        if closed == 0 {
            return false;
        }
        if exhausted == Exhausted::Process {
            self.capacity.fetch_min((open - closed).max(RELIEF_MIN), Ordering::Relaxed);
            self.limited_by.store(tailwater_io::open_files_max(), Ordering::Relaxed);
            self.tracks_reads.store(true, Ordering::Relaxed);
        }
        true
    }
}

impl Default for OpenTables {
    /// Any number of tables, which nobody asks to close.
    fn default() -> Self {
        Self {
            capacity: AtomicUsize::new(UNBOUNDED),
            share: AtomicUsize::new(UNBOUNDED),
            tracks_reads: AtomicBool::new(false),
            hand: Mutex::default(),
            limited_by: AtomicUsize::new(0),
            reported: AtomicUsize::new(0),
            info_log: OnceLock::new(),
        }
    }
}

impl Hand {
    fn add(&mut self, file: &Arc<FileMetadata>) {
        if self.open.len() >= self.pruned_at.max(PRUNED_MIN) {
            self.prune();
            self.pruned_at = 2 * self.open.len();
        }
        self.open.push_back(Arc::downgrade(file));
    }

    /// Takes out those that are no more: their memory is not free before.
    fn prune(&mut self) {
        self.open.retain(|file| file.strong_count() > 0);
    }

    /// Closes so many tables that nobody reads, if there are as many, those that were read lately
    /// last. Returns how many it closed.
    fn close_unused(&mut self, count: usize) -> usize {
        let (mut closed, mut looked, open) = (0, 0, self.open.len());
        while closed < count && looked < 2 * open {
            looked += 1;
            let Some(next) = self.open.pop_front() else { break };
            let Some(victim) = next.upgrade() else { continue };
            let was_read = victim.touched.swap(false, Ordering::Relaxed);
            // One reference is the file's, and one this.
            let is_used = victim.table.load_arc().is_some_and(|it| Arc::strong_count(&it) > 2);
            if was_read || is_used {
                self.open.push_back(next);
            } else {
                victim.table.store(None);
                closed += 1;
            }
        }
        closed
    }

    /// Closes open tables until `capacity` are left, those that were read lately and `newest` last.
    /// Returns whether it closed any.
    fn close_beyond(&mut self, capacity: usize, newest: Option<&Arc<FileMetadata>>) -> bool {
        let mut closed = false;
        let mut looked = 0;
        while self.open.len() > capacity && looked <= 2 * self.open.len() {
            looked += 1;
            let Some(next) = self.open.pop_front() else { break };
            let Some(victim) = next.upgrade() else { continue };
            let is_newest = newest.is_some_and(|newest| Arc::ptr_eq(&victim, newest));
            if victim.touched.swap(false, Ordering::Relaxed) && !is_newest {
                self.open.push_back(next);
            } else {
                victim.table.store(None);
                closed = true;
            }
        }
        closed
    }
}

/// Closes some files of every database in this process; returns whether it closed any.
fn close_some_of_all(exhausted: Exhausted) -> bool {
    // Another thread may have closed some that only wait to be let go of.
    if epoch::collect() > 0 {
        return true;
    }
    let keepers: Vec<_> = KEEPERS.lock().iter().filter_map(Weak::upgrade).collect();
    let mut closed = false;
    for keeper in &keepers {
        closed |= keeper.close_some(exhausted);
    }
    // Whoever is in the middle of a read keeps everything that was closed until that ends, and
    // whoever inserts into a memtable, too.
    for _ in 0..LOOKS {
        if epoch::collect() > 0 {
            return true;
        }
        if epoch::waiting() == 0 {
            break;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    closed
}
