//! Determines which logs are needed, and releases the others.

use super::job::Flushed;
use super::scheduler::FlushScheduler;
use crate::column_family::ColumnFamily;
use crate::error::Result;
use crate::wal::LogSet;

impl FlushScheduler {
    /// Returns the number of the oldest log that will be needed when the column family `dropped`
    /// has been dropped.
    pub(crate) fn oldest_needed_log_without(&self, dropped: &ColumnFamily) -> u64 {
        let current = self.logs.lock().current_number();
        self.oldest_needed_log(current, &[], Some(dropped))
    }

    /// Returns the number of the oldest log that will be needed when the memtables of `flushed` are
    /// in tables and the column family `dropped`, if given, has been dropped.
    ///
    /// `current` is the number of the current log. It must be read before this call reads the
    /// memtables: if a memtable is empty now, entries that are added to it later are in this log or
    /// a later one.
    pub(super) fn oldest_needed_log(
        &self,
        current: u64,
        flushed: &[Flushed],
        dropped: Option<&ColumnFamily>,
    ) -> u64 {
        let mut oldest = current;
        let families = self.context.shared.family_set();
        let is_kept = |family: &&ColumnFamily| dropped.is_none_or(|it| it.id() != family.id());
        for family in families.iter().filter(is_kept) {
            let in_tables = flushed.iter().find(|flushed| flushed.due.family.id() == family.id());
            for memtable in family.super_version().memtables() {
                let is_flushed = in_tables.is_some_and(|flushed| flushed.holds(memtable));
                if !is_flushed && !memtable.is_empty() {
                    oldest = oldest.min(memtable.earliest_log_number());
                }
            }
        }
        oldest
    }

    /// Ensures that the next MANIFEST edit lists the existing logs, so that recovery notices if one
    /// of them is missing. Syncs the directory entries of the logs first.
    pub(crate) fn record_logs(&self) -> Result<()> {
        // With several flushes, an older list could otherwise replace a newer one.
        let _recording = self.recording_logs.lock();
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

    /// Removes the logs that are not needed according to the MANIFEST, or keeps them for recycling.
    /// This is step 7 of the flush module's description. A log that the MANIFEST lists as needed is
    /// kept, because recovery would report it as lost.
    pub(crate) fn release_logs(&self) {
        let oldest = self.versions.lock().min_log_number();
        let obsolete = self.versions.obsolete();
        // Recycling changes the contents of a log, so it pauses together with removals.
        let recycles = !obsolete.is_paused();
        let unneeded = self.logs.lock().release(oldest, recycles);
        unneeded.into_iter().for_each(|path| obsolete.remove(path));
    }

    /// Releases the logs that were kept only for followers which no longer need them.
    pub(crate) fn release_followed_logs(&self) {
        let keeps_any = self.logs.lock().keeps_for_followers();
        if keeps_any {
            self.release_logs();
        }
    }

    /// Syncs all logs but the current one, if there are several column families. To be called
    /// before the MANIFEST adds tables. Otherwise a crash could keep newer data of one column
    /// family, which is in the tables, and lose older data of another, which is only in unsynced
    /// logs. If a sync fails, writes are refused from then on.
    pub(crate) fn sync_closed_logs(&self) -> Result<()> {
        if self.context.shared.family_set().iter().nth(1).is_none() {
            return Ok(());
        }
        let synced = LogSet::sync_closed_beside_writes(&self.logs);
        synced.inspect_err(|error| self.context.latch_log(error))
    }
}
