//! The conditions under which writes are slowed down or stopped.
//!
//! They are the same as in RocksDB (`ColumnFamilyData::RecalculateWriteStallConditions` in
//! `db/column_family.cc`): too many memtables waiting to be flushed, too many tables in level 0, or
//! too many bytes waiting to be compacted.

use crate::stall::delay_rate::Demand;

/// Whether writes are stalled, that is, slowed down or stopped, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum StallState {
    /// Writes are not limited.
    #[default]
    Normal,
    /// Writes are slowed down to a rate.
    Delayed {
        /// The rate to which writes are limited, in bytes per second.
        bytes_per_second: u64,
        /// The condition because of which writes are slowed down.
        cause: StallCause,
        /// A description of the cause with figures: "21 tables in level 0 of 'default'".
        reason: String,
    },
    /// Writes wait until the state changes.
    Stopped {
        /// The condition because of which writes are stopped.
        cause: StallCause,
        /// A description of the cause with figures: "21 tables in level 0 of 'default'".
        reason: String,
    },
}

impl StallState {
    /// Returns this state without its details, as a [`Demand`].
    pub(super) fn demand(&self) -> Demand {
        match self {
            Self::Normal => Demand::Nothing,
            Self::Delayed { .. } => Demand::Delay,
            Self::Stopped { .. } => Demand::Stop,
        }
    }

    /// Returns the condition because of which writes are slowed down or stopped; `None` if they are
    /// not stalled.
    pub(super) fn cause(&self) -> Option<StallCause> {
        match self {
            Self::Normal => None,
            Self::Delayed { cause, .. } | Self::Stopped { cause, .. } => Some(*cause),
        }
    }

    /// Returns this state with another delay rate, in bytes per second, if it is `Delayed`.
    pub(super) fn at_rate(self, rate: u64) -> Self {
        match self {
            Self::Delayed { cause, reason, .. } => {
                Self::Delayed { bytes_per_second: rate, cause, reason }
            }
            other => other,
        }
    }

    /// Returns the condition that requires writes to stop; `None` if they are not stopped.
    pub(crate) fn stopped_by(&self) -> Option<StallCause> {
        match self {
            Self::Stopped { cause, .. } => Some(*cause),
            _ => None,
        }
    }
}

/// The condition that stalls writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallCause {
    /// Too many memtables that wait to be flushed.
    MemTables,
    /// Too many tables in level 0.
    Level0,
    /// Too many bytes that wait to be compacted.
    PendingCompaction,
}

/// The figures and limits of one column family that determine whether writes are stalled.
#[derive(Debug, Clone)]
pub(crate) struct StallConditions {
    pub(crate) family: String,
    /// Whether the column family's options enable automatic compactions. If not, only its memtables
    /// can stall writes.
    pub(crate) compacts: bool,
    /// Whether compactions of the column family run automatically: `compacts` is true, and its
    /// compaction style is implemented.
    pub(crate) compacts_by_itself: bool,
    /// Whether each sorted run on a deeper level counts like a table of level 0, as for universal
    /// compaction.
    pub(crate) counts_runs: bool,
    /// Number of memtables that wait to be flushed.
    pub(crate) sealed_memtables: usize,
    /// Number of tables in level 0; if `counts_runs` is true, plus the number of sorted runs on
    /// deeper levels. 0 if `compacts` is false.
    pub(crate) level_0_tables: usize,
    /// Estimated number of bytes that wait to be compacted.
    pub(crate) pending_compaction_bytes: u64,
    /// Whether so much waits to be compacted that several compactions should run concurrently.
    pub(crate) is_behind: bool,
    pub(crate) max_write_buffer_number: usize,
    pub(crate) min_write_buffer_number_to_merge: usize,
    /// Number of tables in level 0 that triggers a compaction.
    pub(crate) level_0_trigger: usize,
    pub(crate) level_0_slowdown: usize,
    pub(crate) level_0_stop: usize,
    /// Writes are delayed if at least this number of bytes wait to be compacted; 0 means no limit.
    pub(crate) soft_pending_bytes: u64,
    /// Writes are stopped if at least this number of bytes wait to be compacted; 0 means no limit.
    pub(crate) hard_pending_bytes: u64,
}

/// Returns the number of level-0 tables from which on several compactions run concurrently, and at
/// normal priority. It is the smaller of two numbers, but at least 1: twice `trigger`, the number
/// that triggers a compaction, and a quarter of the way from there to `slowdown`, the number that
/// slows down writes.
pub(crate) fn many_level_0_tables(trigger: usize, slowdown: usize) -> usize {
    let part_of_way = slowdown.saturating_sub(trigger) / 4;
    trigger.saturating_mul(2).min(trigger.saturating_add(part_of_way)).max(1)
}

impl StallConditions {
    /// Returns the stall state that this column family requires. If the state is `Delayed`,
    /// `bytes_per_second` is the rate to which writes are limited.
    pub(crate) fn state(&self, bytes_per_second: u64) -> StallState {
        let memtables = self.sealed_memtables;
        let over = |bound: u64| bound > 0 && self.pending_compaction_bytes >= bound;
        let stopped = |cause| StallState::Stopped { cause, reason: self.reason(cause) };
        if memtables >= self.max_write_buffer_number {
            return stopped(StallCause::MemTables);
        }
        if self.level_0_tables > 0 && self.level_0_tables >= self.level_0_stop {
            return stopped(StallCause::Level0);
        }
        if over(self.hard_pending_bytes) {
            return stopped(StallCause::PendingCompaction);
        }
        let delayed =
            |cause| StallState::Delayed { bytes_per_second, cause, reason: self.reason(cause) };
        if self.max_write_buffer_number > 3
            && memtables >= self.max_write_buffer_number - 1
            && memtables > self.min_write_buffer_number_to_merge
        {
            return delayed(StallCause::MemTables);
        }
        if self.level_0_tables > 0 && self.level_0_tables >= self.level_0_slowdown {
            return delayed(StallCause::Level0);
        }
        if over(self.soft_pending_bytes) {
            return delayed(StallCause::PendingCompaction);
        }
        StallState::Normal
    }

    /// Whether writes will soon be delayed if compactions do not progress: the number of tables in
    /// level 0 is past the midpoint between the compaction trigger and the slowdown limit, or the
    /// bytes that wait to be compacted exceed half of the limit from which on writes are delayed.
    pub(super) fn is_near(&self) -> bool {
        let halfway = self.level_0_trigger.midpoint(self.level_0_slowdown);
        let soft = self.soft_pending_bytes;
        self.compacts
            && (self.level_0_tables > halfway
                || (soft > 0 && self.pending_compaction_bytes > soft / 2))
    }

    /// Whether the number of tables in level 0 slows down reads.
    pub(super) fn is_crowded(&self) -> bool {
        let many = many_level_0_tables(self.level_0_trigger, self.level_0_slowdown);
        self.compacts && self.level_0_tables >= many
    }

    /// Whether the figure that `cause` names is close to the limit at which writes are stopped.
    pub(super) fn is_near_stop(&self, cause: StallCause) -> bool {
        let gap = self.hard_pending_bytes.saturating_sub(self.soft_pending_bytes);
        match cause {
            StallCause::MemTables => false,
            StallCause::Level0 => self.level_0_tables >= self.level_0_stop.saturating_sub(2),
            StallCause::PendingCompaction => {
                let over = self.pending_compaction_bytes.saturating_sub(self.soft_pending_bytes);
                self.hard_pending_bytes > 0 && over > gap.saturating_mul(3) / 4
            }
        }
    }

    /// Returns a description of `cause` that includes this column family's current number of
    /// memtables, tables, sorted runs or bytes.
    pub(crate) fn reason(&self, cause: StallCause) -> String {
        let family = &self.family;
        match cause {
            StallCause::MemTables => {
                format!("{} memtables of '{family}' wait to be flushed", self.sealed_memtables)
            }
            StallCause::Level0 => {
                if self.counts_runs {
                    format!("{} sorted runs of '{family}'", self.level_0_tables)
                } else {
                    format!("{} tables in level 0 of '{family}'", self.level_0_tables)
                }
            }
            StallCause::PendingCompaction => {
                let bytes = self.pending_compaction_bytes;
                format!("'{family}' has a compaction backlog of {bytes} bytes")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{StallCause, StallConditions, StallState};

    fn quiet() -> StallConditions {
        StallConditions {
            family: "default".to_owned(),
            compacts: true,
            compacts_by_itself: true,
            counts_runs: false,
            sealed_memtables: 0,
            level_0_tables: 0,
            pending_compaction_bytes: 0,
            is_behind: false,
            max_write_buffer_number: 2,
            min_write_buffer_number_to_merge: 1,
            level_0_trigger: 4,
            level_0_slowdown: 20,
            level_0_stop: 36,
            soft_pending_bytes: 64,
            hard_pending_bytes: 256,
        }
    }

    fn summary(conditions: &StallConditions) -> (u8, Option<StallCause>) {
        match conditions.state(1) {
            StallState::Normal => (0, None),
            StallState::Delayed { cause, .. } => (1, Some(cause)),
            StallState::Stopped { cause, .. } => (2, Some(cause)),
        }
    }

    #[test]
    fn the_conditions_are_those_of_rocksdb() {
        use StallCause::{Level0, MemTables, PendingCompaction};
        let with = |change: fn(&mut StallConditions)| {
            let mut conditions = quiet();
            change(&mut conditions);
            summary(&conditions)
        };
        assert_eq!(summary(&quiet()), (0, None));
        assert_eq!(with(|it| it.sealed_memtables = 1), (0, None));
        assert_eq!(with(|it| it.sealed_memtables = 2), (2, Some(MemTables)));
        assert_eq!(with(|it| it.level_0_tables = 19), (0, None));
        assert_eq!(with(|it| it.level_0_tables = 20), (1, Some(Level0)));
        assert_eq!(with(|it| it.level_0_tables = 36), (2, Some(Level0)));
        assert_eq!(with(|it| it.pending_compaction_bytes = 64), (1, Some(PendingCompaction)));
        assert_eq!(with(|it| it.pending_compaction_bytes = 256), (2, Some(PendingCompaction)));
        let four = |sealed| {
            summary(&StallConditions {
                max_write_buffer_number: 4,
                sealed_memtables: sealed,
                ..quiet()
            })
        };
        let near = |tables, bytes| {
            StallConditions { level_0_tables: tables, pending_compaction_bytes: bytes, ..quiet() }
                .is_near()
        };
        assert_eq!([near(12, 32), near(13, 0), near(0, 33)], [false, true, true]);
        let crowded = |tables| StallConditions { level_0_tables: tables, ..quiet() }.is_crowded();
        assert_eq!([0, 7, 8].map(crowded), [false, false, true]);
        let never = StallConditions {
            level_0_trigger: usize::MAX,
            level_0_tables: 1000,
            level_0_slowdown: usize::MAX,
            level_0_stop: usize::MAX,
            ..quiet()
        };
        assert!(!never.is_crowded() && !never.is_near(), "a trigger below 0");
        assert_eq!([2, 3, 4].map(four), [(0, None), (1, Some(MemTables)), (2, Some(MemTables))]);
        let merging = StallConditions {
            max_write_buffer_number: 4,
            min_write_buffer_number_to_merge: 3,
            sealed_memtables: 3,
            ..quiet()
        };
        assert_eq!(summary(&merging), (0, None), "three memtables that become one table");
    }
}
