//! Properties of writes, flushes, logs and snapshots.

use super::saturating_sum;
use crate::column_family::ColumnFamily;
use crate::compaction::{LevelTargets, stall_conditions};
use crate::db::Db;
use crate::stall::StallState;

impl Db {
    /// Returns a numeric property of writes, flushes, logs or snapshots.
    pub(super) fn writing_number(&self, family: &ColumnFamily, name: &str) -> Option<u64> {
        let activity = &self.inner.shared.activity;
        let stall = || self.stall_state();
        Some(match name {
            "background-errors" => activity.background_errors.get(),
            "is-write-stopped" => u64::from(matches!(stall(), StallState::Stopped { .. })),
            "actual-delayed-write-rate" => match stall() {
                StallState::Delayed { bytes_per_second, .. } => bytes_per_second,
                _ => 0,
            },
            "num-running-flushes" => {
                self.database().map_or(0, |database| database.flushes.running() as u64)
            }
            "mem-table-flush-pending" => {
                u64::from(self.database().is_ok_and(|database| database.flushes.is_pending(family)))
            }
            "estimate-pending-compaction-bytes" => {
                stall_conditions(family).pending_compaction_bytes
            }
            "num-running-compactions" => self.running_compactions() as u64,
            "compaction-pending" => {
                u64::from(self.needs_compaction_cf(family).is_ok_and(|needs| needs))
            }
            "base-level" => {
                let source = family.super_version();
                LevelTargets::new(source.version(), &family.options()).base_level as u64
            }
            "num-snapshots" => self.snapshots().count() as u64,
            "oldest-snapshot-sequence" => {
                self.snapshots().sequences().first().copied().unwrap_or(0)
            }
            "oldest-snapshot-time" => self.snapshots().oldest_time_s().unwrap_or(0),
            "is-file-deletions-enabled" => u64::from(!self.pauses_file_deletions()),
            "min-log-number-to-keep" => self.database().ok()?.versions.lock().min_log_number(),
            "obsolete-sst-files-size" => self.obsolete_table_bytes(),
            _ => return None,
        })
    }

    /// Returns the number of obsolete files that have not been removed yet.
    pub(super) fn obsolete_files(&self) -> usize {
        self.database().map_or(0, |database| database.versions.obsolete().count())
    }

    fn pauses_file_deletions(&self) -> bool {
        self.database().is_ok_and(|database| database.versions.obsolete().is_paused())
    }

    /// Returns the total size of obsolete tables that have not been removed yet, in bytes.
    fn obsolete_table_bytes(&self) -> u64 {
        let Ok(database) = self.database() else { return 0 };
        let tables = database.versions.obsolete().tables();
        saturating_sum(tables.into_iter().map(|(_, bytes)| bytes))
    }
}
