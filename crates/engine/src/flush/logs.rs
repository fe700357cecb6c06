//! Determines which logs are needed, and releases the others.

use super::job::Flushed;
use super::scheduler::FlushScheduler;
use crate::column_family::ColumnFamily;
use crate::error::Result;
use crate::wal::LogSet;

impl FlushScheduler {
    /// Returns the number of the oldest log that is needed after the column family `dropped` is
    /// dropped.
    pub(crate) fn oldest_needed_log_without(&self, dropped: &ColumnFamily) -> u64 {
        self.oldest_needed_log(&[], Some(dropped))
    }

    /// Returns the number of the oldest log that is needed after the memtables of `flushed` are in
    /// tables and the column family `dropped` is dropped.
    pub(super) fn oldest_needed_log(
        &self,
        flushed: &[Flushed<'_>],
        dropped: Option<&ColumnFamily>,
    ) -> u64 {
        // The current log is read before the memtables: entries that are added later to a memtable
        // that is empty now are in this log or a later one.
        let mut oldest = self.logs.lock().current_number();
        let families = self.context.shared.family_set();
        let is_kept = |family: &&ColumnFamily| dropped.is_none_or(|it| it.id() != family.id());
        for family in families.iter().filter(is_kept) {
            let in_tables = flushed.iter().find(|flushed| flushed.family.id() == family.id());
            for memtable in family.super_version().memtables() {
                let is_flushed = in_tables.is_some_and(|flushed| flushed.holds(memtable));
                if !is_flushed && !memtable.is_empty() {
                    oldest = oldest.min(memtable.earliest_log_number());
                }
            }
        }
        oldest
    }

    /// Records the existing logs in the next MANIFEST edit, so that recovery notices a log that
    /// goes missing later. The directory entries of the logs are synced first.
    pub(crate) fn record_logs(&self) -> Result<()> {
        let (directory, logs) = {
            let logs = self.logs.lock();
            (logs.directory().to_owned(), logs.live_numbers())
        };
        if !self.versions.lock().knows_logs(&logs) {
            self.context.storage.sync_directory(&directory)?;
            self.versions.lock().set_existing_logs(logs);
        }
        Ok(())
    }

    /// Step 7: releases the logs that are not needed according to the MANIFEST. A log that the
    /// MANIFEST lists as needed must be kept, because replay would report its removal as a loss.
    pub(crate) fn release_logs(&self) {
        let oldest = self.versions.lock().min_log_number();
        let unneeded = self.logs.lock().release(oldest);
        for path in unneeded {
            if let Err(error) = self.context.storage.remove(&path) {
                self.context.info_log.warn(format_args!("cannot remove an obsolete log: {error}"));
            }
        }
    }

    /// If there are several column families, syncs the complete logs before the MANIFEST adds
    /// tables with newer data: otherwise a crash could keep the newer data of one column family and
    /// lose older data of another. On failure, refuses writes.
    pub(crate) fn sync_closed_logs(&self) -> Result<()> {
        if self.context.shared.family_set().iter().nth(1).is_none() {
            return Ok(());
        }
        let synced = LogSet::sync_closed_beside_writes(&self.logs);
        synced.inspect_err(|error| self.context.latch_log(error))
    }
}
