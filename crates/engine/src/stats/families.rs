//! Statistics of a column family since it was opened.

use super::activity::Counter;
use super::levels::{IngestedFigures, LevelFigures, LevelStatistics};
use tailwater_io::sync::Mutex;

use crate::stall::{StallCause, StallState};

/// Statistics of a column family since it was opened.
#[derive(Debug)]
pub(crate) struct FamilyStatistics {
    pub(crate) levels: LevelStatistics,
    pub(crate) stalls: StallCounts,
    /// Number of violated contracts that flushes and compactions found.
    pub(crate) contract_violations: Counter,
    /// The totals at the time when statistics were last written to the LOG.
    at_last_dump: Mutex<FamilyDone>,
}

/// Totals of a column family's flushes, compactions, ingestions and stalls, from the opening of the
/// database to a point in time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FamilyDone {
    /// The time since the database was opened, in seconds.
    pub(crate) seconds: f64,
    pub(crate) bytes_flushed: u64,
    pub(crate) ingested: IngestedFigures,
    /// The totals of flushes and compactions, summed over all levels.
    pub(crate) figures: LevelFigures,
    pub(crate) stalls: u64,
}

impl FamilyDone {
    /// Returns the number of bytes that flushes and ingestion have added to the column family.
    pub(crate) fn bytes_come_in(&self) -> u64 {
        self.bytes_flushed + self.ingested.bytes
    }
}

/// How often a check found that writes must be slowed down or stopped, by cause. Stall conditions
/// are checked whenever the memtables or tables of a column family change, as in RocksDB.
#[derive(Debug, Default)]
pub(crate) struct StallCounts {
    delays: [Counter; CAUSES],
    stops: [Counter; CAUSES],
}

const CAUSES: usize = StallCause::PendingCompaction as usize + 1;

impl StallCounts {
    /// Counts the result of a check for stall conditions.
    pub(crate) fn record(&self, state: &StallState) {
        match state {
            StallState::Normal => {}
            StallState::Delayed { cause, .. } => self.delays[*cause as usize].add(1),
            StallState::Stopped { cause, .. } => self.stops[*cause as usize].add(1),
        }
    }

    /// Returns how many checks found that writes must be slowed down for this cause.
    pub(crate) fn delays(&self, cause: StallCause) -> u64 {
        self.delays[cause as usize].get()
    }

    /// Returns how many checks found that writes must be stopped for this cause.
    pub(crate) fn stops(&self, cause: StallCause) -> u64 {
        self.stops[cause as usize].get()
    }

    /// Returns how many checks found that writes must be slowed down, for any cause.
    pub(crate) fn all_delays(&self) -> u64 {
        self.delays.iter().map(Counter::get).sum()
    }

    /// Returns how many checks found that writes must be stopped, for any cause.
    pub(crate) fn all_stops(&self) -> u64 {
        self.stops.iter().map(Counter::get).sum()
    }
}

impl FamilyStatistics {
    /// Creates the statistics of a column family that has `levels` levels.
    pub(crate) fn new(levels: usize) -> Self {
        Self {
            levels: LevelStatistics::new(levels),
            stalls: StallCounts::default(),
            contract_violations: Counter::default(),
            at_last_dump: Mutex::default(),
        }
    }

    /// Returns the totals of flushes, compactions, ingestions and stalls at the time when
    /// statistics were last written to the LOG.
    pub(crate) fn done_at_last_dump(&self) -> FamilyDone {
        *self.at_last_dump.lock()
    }

    /// Records the totals that were written to the LOG.
    pub(crate) fn dumped(&self, done: FamilyDone) {
        *self.at_last_dump.lock() = done;
    }
}
