//! The state that the read operations and write operations of an open database share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tailwater_format::key::Sequence;

use crate::column_family::FamilySet;
use crate::epoch::{FullEpochCell, Garbage};
use crate::io_modes::IoModes;
use crate::opening::OpeningId;
use crate::read::SnapshotList;
use crate::stats::slow_reads::SlowReads;
use crate::stats::{Activity, Statistics};

/// State that the read operations and write operations of a database share.
#[derive(Debug)]
pub(crate) struct ReadState {
    /// Identifies this opening of the database. Handles of its column families have the same
    /// identifier.
    pub(crate) opening: OpeningId,
    /// The column families.
    pub(crate) families: FullEpochCell<FamilySet>,
    /// The highest sequence number that reads see.
    pub(crate) published: AtomicU64,
    pub(crate) snapshots: SnapshotList,
    /// Counters of the database's activity since it was opened.
    pub(crate) activity: Activity,
    /// The statistics object, if one was set.
    pub(crate) statistics: Option<Arc<Statistics>>,
    /// Where the time of slow reads went.
    pub(crate) slow_reads: Arc<SlowReads>,
    /// The I/O modes of the database's files.
    pub(crate) io_modes: Arc<IoModes>,
    /// What the database has retired and not yet dropped.
    pub(crate) garbage: Arc<Garbage>,
}

impl ReadState {
    /// Returns the highest sequence number that reads see.
    pub(crate) fn published(&self) -> Sequence {
        self.published.load(Ordering::Acquire)
    }

    /// Returns a reference to the column families.
    pub(crate) fn family_set(&self) -> Arc<FamilySet> {
        self.families.load_arc()
    }
}
