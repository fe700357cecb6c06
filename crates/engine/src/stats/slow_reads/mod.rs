//! Slow reads: where the time of each read went that took longer than a threshold.
//!
//! A read begins with [`SlowReads::begin`], and ends with [`SlowReads::end`]. In between,
//! [`tailwater_io::attribution`] divides its time by causes, and the code that reads counts what it
//! did ([`count`]). Of a slow read, both are added to the totals, and kept as one of the most
//! recent slow reads. A read that is part of another, such as a get in a merge operator, is
//! attributed to that one.
//!
//! Without a threshold, a read costs little more than a load and a branch. With one, it also takes
//! the time twice, and makes no system call while reads are fast, except once a millisecond.

mod cause;
mod counts;
mod record;
mod totals;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tailwater_io::attribution::{Attribution, Spent};
use tailwater_io::clock::{Clock, SystemClock};
use tailwater_io::sync::Mutex;

pub use cause::SlowReadCause;
pub(crate) use counts::{count, count_block};
use record::SlowRead;
pub(crate) use record::{Operation, SearchCounts};
pub use totals::SlowReadTotals;
use totals::Totals;

/// Number of slow reads that are kept.
const KEPT: usize = 1000;

/// The slow reads of a database. Any thread may use it.
#[derive(Debug)]
pub(crate) struct SlowReads {
    switch: Switch,
    totals: Totals,
    /// The most recent slow reads, oldest first.
    recent: Mutex<VecDeque<SlowRead>>,
}

/// What every read looks at. Alone on two cache lines, because processors prefetch lines in pairs:
/// slow reads must not invalidate it.
#[derive(Debug)]
#[repr(align(128))]
struct Switch {
    /// Duration from which on a read is slow, in nanoseconds; 0 switches attribution off.
    threshold_ns: AtomicU64,
    /// Whether keys are kept.
    keeps_keys: AtomicBool,
}

/// The request that a read serves, which is recorded if the read is slow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) operation: Operation,
    /// The name of the column family; empty for several.
    pub(crate) family: &'a str,
    /// The key, the first of several keys, or the target of a seek.
    pub(crate) key: Option<&'a [u8]>,
    /// Number of keys that were asked for.
    pub(crate) keys: usize,
    pub(crate) searched: SearchCounts,
}

impl SlowReads {
    /// Creates an empty list. A read is slow from `threshold_us` microseconds on; with 0, none is.
    pub(crate) fn new(threshold_us: u64, keeps_keys: bool) -> Self {
        let slow_reads = Self {
            switch: Switch {
                threshold_ns: AtomicU64::new(0),
                keeps_keys: AtomicBool::new(keeps_keys),
            },
            totals: Totals::default(),
            recent: Mutex::default(),
        };
        slow_reads.change(threshold_us, keeps_keys);
        slow_reads
    }

    /// Changes the threshold, and whether keys are kept. If not, those kept so far are dropped.
    pub(crate) fn change(&self, threshold_us: u64, keeps_keys: bool) {
        self.switch.threshold_ns.store(threshold_us.saturating_mul(1000), Relaxed);
        self.switch.keeps_keys.store(keeps_keys, Relaxed);
        if !keeps_keys {
            self.recent.lock().iter_mut().for_each(|read| read.key = None);
        }
    }

    /// Whether the time of reads is attributed.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.switch.threshold_ns.load(Relaxed) > 0
    }

    /// Begins a read. Returns `None` if its time is not attributed, or is part of that of another
    /// read.
    #[inline]
    pub(crate) fn begin(&self) -> Option<Attribution> {
        match self.switch.threshold_ns.load(Relaxed) {
            0 => None,
            threshold_ns => {
                let attribution = Attribution::begin(threshold_ns)?;
                counts::reset();
                Some(attribution)
            }
        }
    }

    /// Ends a read.
    #[inline]
    pub(crate) fn end<'a>(&self, reading: Attribution, request: impl FnOnce() -> Request<'a>) {
        if let Some(spent) = reading.end() {
            self.add(&spent, &request());
        }
    }

    #[cold]
    fn add(&self, spent: &Spent, request: &Request<'_>) {
        let counts = counts::take();
        let mut read = SlowRead {
            at_us: SystemClock.wall_us(),
            operation: request.operation,
            family: request.family.to_owned(),
            key: request.key.map(Box::from),
            keys: request.keys,
            searched: request.searched,
            spent: *spent,
            counts,
        };
        self.totals.add(&read);
        let mut recent = self.recent.lock();
        // Loaded while the list is locked, so that no key comes after `change` has dropped them.
        if !self.switch.keeps_keys.load(Relaxed) {
            read.key = None;
        }
        if recent.len() >= KEPT {
            recent.pop_front();
        }
        recent.push_back(read);
    }

    /// Returns the most recent slow reads, oldest first, each as a line with a JSON object.
    pub(crate) fn recent_text(&self) -> String {
        let recent = self.recent.lock().clone();
        let mut text = String::new();
        for read in recent {
            read.write_json(&mut text);
            text.push('\n');
        }
        text
    }

    /// Returns the totals since the database was opened.
    pub(crate) fn totals(&self) -> SlowReadTotals {
        self.totals.sum(self.switch.threshold_ns.load(Relaxed) / 1000)
    }
}
