//! What has happened to a column family since it was opened.

use super::activity::Counter;
use super::levels::{IngestedFigures, LevelFigures, LevelStatistics};
use tailwater_io::sync::Mutex;

use crate::write::{StallCause, StallState};

/// What has happened to a column family since it was opened.
#[derive(Debug)]
pub(crate) struct FamilyStatistics {
    pub(crate) levels: LevelStatistics,
    pub(crate) stalls: StallCounts,
    /// What had been done when statistics were last written to the LOG.
    at_last_dump: Mutex<FamilyDone>,
}

/// What had been done to a column family up to some moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FamilyDone {
    /// The time since the database was opened, in seconds.
    pub(crate) seconds: f64,
    pub(crate) bytes_flushed: u64,
    pub(crate) ingested: IngestedFigures,
    /// In all levels together.
    pub(crate) figures: LevelFigures,
    pub(crate) stalls: u64,
}

impl FamilyDone {
    /// All that came in from above, by flushes and ingestion.
    pub(crate) fn bytes_come_in(&self) -> u64 {
        self.bytes_flushed + self.ingested.bytes
    }
}

/// How often stalls were found to be needed, by what they were needed for. Conditions are looked
/// at whenever the memtables or the tables of a column family change, as in RocksDB.
#[derive(Debug, Default)]
pub(crate) struct StallCounts {
    delays: [Counter; CAUSES],
    stops: [Counter; CAUSES],
}

const CAUSES: usize = StallCause::PendingCompaction as usize + 1;

impl StallCounts {
    /// Counts what a look at the conditions demanded.
    pub(crate) fn record(&self, state: &StallState) {
        match state {
            StallState::Normal => {}
            StallState::Delayed { cause, .. } => self.delays[*cause as usize].add(1),
            StallState::Stopped { cause, .. } => self.stops[*cause as usize].add(1),
        }
    }

    /// How often writes were to be slowed down for this.
    pub(crate) fn delays(&self, cause: StallCause) -> u64 {
        self.delays[cause as usize].get()
    }

    /// How often writes were to be stopped for this.
    pub(crate) fn stops(&self, cause: StallCause) -> u64 {
        self.stops[cause as usize].get()
    }

    /// How often writes were to be slowed down for anything.
    pub(crate) fn all_delays(&self) -> u64 {
        self.delays.iter().map(Counter::get).sum()
    }

    /// How often writes were to be stopped for anything.
    pub(crate) fn all_stops(&self) -> u64 {
        self.stops.iter().map(Counter::get).sum()
    }
}

impl FamilyStatistics {
    /// Of a column family with so many levels.
    pub(crate) fn new(levels: usize) -> Self {
        Self {
            levels: LevelStatistics::new(levels),
            stalls: StallCounts::default(),
            at_last_dump: Mutex::default(),
        }
    }

    /// What had been done when statistics were last written to the LOG.
    pub(crate) fn done_at_last_dump(&self) -> FamilyDone {
        *self.at_last_dump.lock()
    }

    /// Says that statistics were written to the LOG.
    pub(crate) fn dumped(&self, done: FamilyDone) {
        *self.at_last_dump.lock() = done;
    }
}
