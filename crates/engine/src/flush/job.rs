//! Chooses the memtables to flush, and flushes them.

use std::sync::{Arc, MutexGuard};

use tailwater_format::version_edit::{NewFile, VersionEdit};

use super::scheduler::FlushScheduler;
use super::table::FlushedTable;
use crate::column_family::{ColumnFamily, FamilySet, SealedMemTable};
use crate::compaction::update_stalls;
use crate::error::{Error, Result};
use crate::memtable::MemTable;
use crate::stats::Work;
use crate::table::{FileMetadata, WarmInstallation};
use crate::version::VersionSet;

/// A column family, and its sealed memtables that are to be flushed.
struct Due<'a> {
    family: &'a ColumnFamily,
    memtables: Vec<SealedMemTable>,
}

/// The sealed memtables of a column family, and their tables.
pub(super) struct Flushed<'a> {
    pub(super) family: &'a ColumnFamily,
    memtables: &'a [SealedMemTable],
    /// The tables that hold the records of the memtables, in key order; none if no record was left
    /// to write.
    tables: Vec<FlushedTable>,
    /// Metadata of the tables; none until the tables are opened.
    files: Vec<Arc<FileMetadata>>,
}

/// Which logs are still needed when a flush has been installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Logs {
    /// A log is needed as long as it has entries that are not in tables yet.
    AsNeeded,
    /// Only the logs with this number or a higher one are needed. No column family needs the older
    /// logs.
    From(u64),
}

impl FlushScheduler {
    /// Flushes the sealed memtables of every column family for which a flush is due
    /// ([`ColumnFamily::wants_flush`]).
    pub(crate) fn flush_all_sealed(&self) -> Result<()> {
        let failures = self.flush_where(|_| true)?;
        failures.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Like [`Self::flush_all_sealed`], for the column families for which `may_flush` returns true.
    /// If flushes are atomic and it returns false for one of them, flushes none. Returns the column
    /// families whose flushes lack space or file descriptors and are to be retried
    /// ([`FlushScheduler::is_retried`]). They do not prevent the flushes of other column families,
    /// whose tables may be on another disk.
    ///
    /// # Errors
    /// Any other error of a flush. The remaining column families have not been flushed.
    pub(super) fn flush_where(
        &self,
        may_flush: impl Fn(&ColumnFamily) -> bool,
    ) -> Result<Vec<(ColumnFamily, Error)>> {
        let _flushing = self.flushing();
        let families = self.context.shared.family_set();
        let is_atomic = self.context.options.fixed().atomic_flush;
        let due = self.due(&families, is_atomic, may_flush);
        let groups = due.chunks(if is_atomic { due.len().max(1) } else { 1 });
        let mut failures = Vec::new();
        for group in groups {
            if let Err(error) = self.flush_together(group, Logs::AsNeeded) {
                group.iter().for_each(|due| due.family.request_flush(true));
                if !self.is_retried(&error) {
                    return Err(error);
                }
                failures.extend(group.iter().map(|due| (due.family.clone(), error.clone())));
            }
        }
        self.release_logs();
        Ok(failures)
    }

    /// Flushes all sealed memtables, however small, and releases the logs with numbers below
    /// `number`. No active memtable may have entries in those logs. The flush takes effect
    /// atomically for all column families.
    fn flush_leaving_logs(&self, _flushing: &MutexGuard<'_, ()>, number: u64) -> Result<()> {
        let families = self.context.shared.family_set();
        let due: Vec<_> = {
            let _sealing = self.sealing();
            families.iter().map(Due::of).collect()
        };
        let flushed = self.flush_together(&due, Logs::From(number));
        if flushed.is_err() {
            due.iter().for_each(|due| due.family.request_flush(true));
        }
        flushed?;
        self.release_logs();
        Ok(())
    }

    /// Seals and flushes the memtables after a failure of the log. `number` is the number of the
    /// new log; older logs are released.
    ///
    /// The caller must hold `flushing`, from [`FlushScheduler::flushing`], since before it began
    /// the new log. Beginning it abandons complete logs that were never synced. A flush running at
    /// that time would no longer find them, and would install the table of one column family
    /// although a power cut could still remove the rest of the same batches.
    pub(crate) fn flush_into_new_log(
        &self,
        flushing: &MutexGuard<'_, ()>,
        number: u64,
    ) -> Result<()> {
        let families = self.context.shared.family_set();
        let sealing = self.sealing();
        for family in families.iter() {
            if family.active().is_empty() {
                family.active().set_earliest_log_number(number)
            } else {
                family.seal(number)
            }
            family.request_flush(true);
        }
        drop(sealing);
        self.flush_leaving_logs(flushing, number)
    }

    /// Returns the column families to flush, with their sealed memtables. Takes the sealing lock.
    /// So if memtables were sealed together, either all or none of them are included.
    fn due<'a>(
        &self,
        families: &'a FamilySet,
        is_atomic: bool,
        may_flush: impl Fn(&ColumnFamily) -> bool,
    ) -> Vec<Due<'a>> {
        let _sealing = self.sealing();
        let (due, waiting): (Vec<_>, Vec<_>) =
            families.iter().filter(|family| family.wants_flush()).partition(|it| may_flush(it));
        if is_atomic && !waiting.is_empty() {
            return Vec::new();
        }
        due.into_iter().map(Due::of).collect()
    }

    /// Flushes memtables of column families atomically.
    fn flush_together(&self, due: &[Due<'_>], logs: Logs) -> Result<()> {
        let _running = self.context.shared.activity.running_flushes.enter();
        let flushed = self.write_all_tables(due).and_then(|flushed| {
            if !flushed.is_empty() || logs != Logs::AsNeeded {
                self.install(flushed, logs)?;
            }
            Ok(())
        });
        update_stalls(&self.context, &due.iter().map(|due| due.family).collect::<Vec<_>>());
        if flushed.is_ok() {
            due.iter().for_each(|due| self.note_success(due.family));
        }
        flushed
    }

    /// Ends the retries of a column family's flush, if there are any.
    fn note_success(&self, family: &ColumnFamily) {
        if self.context.background.flush_retries().succeeded(family.id()) {
            let name = family.name();
            self.context.info_log.info(format_args!("flushes of '{name}' succeed again"));
        }
    }

    /// Writes and syncs the tables of each column family, which are steps 1 and 2 of the flush
    /// module's description. If one table fails, all are removed.
    fn write_all_tables<'a>(&self, due: &'a [Due<'a>]) -> Result<Vec<Flushed<'a>>> {
        let mut flushed: Vec<Flushed<'a>> = Vec::new();
        for &Due { family, ref memtables } in due.iter().filter(|due| !due.memtables.is_empty()) {
            match self.write_tables(family, memtables, Work::Flush) {
                Ok(tables) => {
                    flushed.push(Flushed { family, memtables, tables, files: Vec::new() });
                }
                Err(error) => {
                    self.remove_tables(flushed);
                    return Err(error);
                }
            }
        }
        Ok(flushed)
    }

    /// Removes tables that no MANIFEST names. If a removal fails, the next open removes the file.
    fn remove_tables(&self, flushed: Vec<Flushed<'_>>) {
        for Flushed { family, tables, mut files, .. } in flushed {
            if files.is_empty() {
                let written = |table: FlushedTable| Arc::new(FileMetadata::new(table.file));
                files = tables.into_iter().map(written).collect();
            }
            for file in &files {
                let removed = self.versions.obsolete().remove_new(&family.readers().tables, file);
                if let Err(error) = removed {
                    self.context
                        .info_log
                        .warn(format_args!("cannot remove an unused table: {error}"));
                }
            }
        }
    }

    /// Installs the tables. These are steps 3 to 6 of the flush module's description.
    fn install(&self, mut flushed: Vec<Flushed<'_>>, logs: Logs) -> Result<()> {
        let synced = self.sync_closed_logs().and_then(|()| self.record_logs());
        if let Err(error) = synced.and_then(|()| self.open_tables(&mut flushed)) {
            // No MANIFEST names the tables yet, and a retry writes new tables.
            self.remove_tables(flushed);
            return Err(error);
        }
        let min_log_number = match logs {
            Logs::AsNeeded => self.oldest_needed_log(&flushed, None),
            Logs::From(number) => number,
        };
        let tables = flushed.iter_mut().flat_map(|flushed| &mut flushed.tables);
        let handovers = tables.filter_map(|table| table.table_handover.take());
        let warm = WarmInstallation::begin(handovers.collect());
        self.context
            .latch_on_unwind("a flush", || self.install_tables(flushed, warm, logs, min_log_number))
    }

    /// Gives the tables their epoch numbers, and opens them. This is step 4 of the flush module's
    /// description.
    fn open_tables(&self, flushed: &mut [Flushed<'_>]) -> Result<()> {
        for Flushed { family, tables, files, .. } in flushed {
            let epochs = self.versions.lock().take_epochs(family.id(), tables.len());
            // A column family that has been dropped no longer needs its tables.
            let Some(first_epoch) = epochs else { continue };
            let added = in_epochs(tables.iter().map(|table| table.file.clone()), first_epoch);
            *files = added.into_iter().map(|file| Arc::new(FileMetadata::new(file))).collect();
            self.context.open_new_tables(family, files)?;
        }
        Ok(())
    }

    /// Writes the edits to the MANIFEST, and lets readers see the tables. These are steps 5 and 6
    /// of the flush module's description.
    fn install_tables(
        &self,
        mut flushed: Vec<Flushed<'_>>,
        warm: WarmInstallation,
        logs: Logs,
        min_log_number: u64,
    ) -> Result<()> {
        let installation = self.versions.begin_installation();
        // A column family that has been dropped no longer needs its table.
        let dropped: Vec<Flushed<'_>> =
            flushed.extract_if(.., |flushed| flushed.family.is_dropped()).collect();
        let mut edits: Vec<VersionEdit> =
            flushed.iter().map(|it| edit(it, min_log_number)).collect();
        if let Logs::From(number) = logs {
            leave_logs(&mut edits, &installation.versions(), number);
        }
        let files: Vec<_> = flushed.iter().flat_map(|it| it.files.iter().cloned()).collect();
        let written = self.context.write_edits(installation, edits, &files);
        // No edit names the tables of dropped column families, so they are removed even if the
        // edits were not written.
        self.remove_tables(dropped);
        let written = written?;
        // The empty iterators are the replaced tables: a flush replaces none.
        warm.install(&files, std::iter::empty()).forget(std::iter::empty());
        let mut installed = written.install();
        for Flushed { family, memtables, .. } in flushed {
            self.context.publish(&mut installed, family, memtables)?;
        }
        Ok(())
    }
}

impl<'a> Due<'a> {
    fn of(family: &'a ColumnFamily) -> Self {
        // The request is cleared before the sealed memtables are listed. A memtable that is sealed
        // later requests a flush of its own.
        family.request_flush(false);
        Self { family, memtables: family.sealed() }
    }
}

impl Flushed<'_> {
    pub(super) fn holds(&self, memtable: &Arc<MemTable>) -> bool {
        self.memtables.iter().any(|sealed| Arc::ptr_eq(&sealed.memtable, memtable))
    }
}

/// Returns the MANIFEST edit of a flush.
fn edit(flushed: &Flushed<'_>, min_log_number: u64) -> VersionEdit {
    VersionEdit {
        column_family: flushed.family.id(),
        log_number: flushed.memtables.last().map(|sealed| sealed.next_log_number),
        min_log_number_to_keep: Some(min_log_number),
        new_files: flushed.files.iter().map(|file| file.added().clone()).collect(),
        ..VersionEdit::default()
    }
}

/// Gives the tables of a flush their epoch numbers, beginning with `first_epoch`. The tables are in
/// key order. If a table begins with a version of the key with which the table before it ends, it
/// has the older versions of the key, so the first table gets the highest number.
pub(crate) fn in_epochs(tables: impl Iterator<Item = NewFile>, first_epoch: u64) -> Vec<NewFile> {
    let mut tables: Vec<NewFile> = tables.collect();
    for (epoch_number, table) in (first_epoch..).zip(tables.iter_mut().rev()) {
        table.epoch_number = epoch_number;
    }
    tables
}

/// Adds to the edits of a flush, for every column family, that it needs no log with a number below
/// `number`. Column families that have nothing to flush get an edit of their own.
fn leave_logs(edits: &mut Vec<VersionEdit>, versions: &VersionSet, number: u64) {
    for &id in versions.families().keys() {
        match edits.iter_mut().find(|edit| edit.column_family == id) {
            Some(edit) => edit.log_number = Some(number),
            None => edits.push(VersionEdit {
                column_family: id,
                log_number: Some(number),
                min_log_number_to_keep: Some(number),
                ..VersionEdit::default()
            }),
        }
    }
}
