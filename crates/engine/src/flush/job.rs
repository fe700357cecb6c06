//! Runs flush jobs: chooses the memtables, writes their tables and installs them.

use std::collections::BTreeSet;
use std::sync::Arc;

use tailwater_format::version_edit::{NewFile, VersionEdit};

use super::jobs::{Due, Paused, RunningJob, State};
use super::scheduler::FlushScheduler;
use super::table::FlushedTable;
use crate::background::{Ended, FailedPart};
use crate::column_family::ColumnFamily;
use crate::compaction::update_stalls;
use crate::error::{Error, Result};
use crate::memtable::MemTable;
use crate::stats::Work;
use crate::table::{FileMetadata, WarmInstallation};
use crate::version::VersionSet;

/// The sealed memtables of a column family, and their tables.
pub(super) struct Flushed {
    pub(super) due: Due,
    /// The tables that hold the records of the memtables, in key order; none if no record was left
    /// to write.
    tables: Vec<FlushedTable>,
    /// Metadata of the tables; none until the tables are opened.
    files: Vec<Arc<FileMetadata>>,
}

/// A job that failed.
pub(super) struct FailedJob {
    pub(super) families: Vec<ColumnFamily>,
    pub(super) error: Error,
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
    /// Pauses the other flushes, and flushes the sealed memtables of every column family for which
    /// a flush is due. A shortage in one family does not prevent the flushes of the others, whose
    /// tables may be on another disk.
    ///
    /// # Errors
    /// The first error of a flush.
    pub(crate) fn flush_all_sealed(&self) -> Result<()> {
        let paused = self.pause();
        let (mut failed, mut result) = (BTreeSet::new(), Ok(()));
        loop {
            let may_flush = |family: &ColumnFamily| !failed.contains(&family.id());
            let job = self.jobs.begin_paused(&paused, |state| self.choose(state, may_flush));
            let Some(job) = job else { return result };
            let Err(FailedJob { families, error }) = self.run(job) else { continue };
            failed.extend(families.iter().map(ColumnFamily::id));
            let is_retried = self.is_retried(&error);
            result = result.and(Err(error));
            if !is_retried {
                return result;
            }
        }
    }

    /// Flushes all sealed memtables, however small, and releases the logs with numbers below
    /// `number`. No active memtable may have entries in those logs. The flush takes effect
    /// atomically for all column families.
    fn flush_leaving_logs(&self, number: u64) -> Result<()> {
        let _running = self.context.shared.activity.running_flushes.enter();
        let families = self.context.shared.family_set();
        let due: Vec<_> = {
            let _sealing = self.sealing();
            families.iter().map(Due::all_of).collect()
        };
        let flushed = self.write_all_tables(&due);
        let installed = flushed.and_then(|flushed| self.install(flushed, Logs::From(number)));
        self.ended(&due, installed).map_err(|failed| failed.error)?;
        self.release_logs();
        Ok(())
    }

    /// Seals and flushes the memtables after a failure of the log. `number` is the number of the
    /// new log; older logs are released.
    ///
    /// The caller must have paused flushes, with [`FlushScheduler::pause`], before it began the new
    /// log. Beginning it abandons complete logs that were never synced. A flush running at that
    /// time would no longer find them, and would install the table of one column family although a
    /// power cut could still remove the rest of the same batches.
    pub(crate) fn flush_into_new_log(&self, _paused: &Paused<'_>, number: u64) -> Result<()> {
        // Their memtables are flushed again, together with all others.
        self.discard_written();
        let families = self.context.shared.family_set();
        let (sealing, sequence) = (self.sealing(), self.context.published());
        for family in families.iter() {
            if family.active().is_empty() {
                family.active().begin_at(number, sequence)
            } else {
                family.seal(number, sequence)
            }
            family.request_flush(true);
        }
        drop(sealing);
        self.flush_leaving_logs(number)
    }

    /// Ends flushes of a database whose background work has ended.
    pub(crate) fn end(&self, _ended: &Ended) {
        self.discard_written();
    }

    /// Removes the tables of the jobs that wait to be installed, and ends these jobs.
    fn discard_written(&self) {
        self.remove_tables(self.jobs.take_written());
    }

    /// Chooses what the next job flushes, among the column families for which `may_flush` returns
    /// true: the family whose memtable has waited longest. If flushes are atomic, chooses all
    /// families whose flush is due, or none if one of them may not be flushed.
    ///
    /// Takes the sealing lock. So if memtables were sealed together, an atomic flush includes
    /// either all or none of them.
    pub(super) fn choose(
        &self,
        jobs: &State,
        may_flush: impl Fn(&ColumnFamily) -> bool,
    ) -> Vec<Due> {
        let _sealing = self.sealing();
        let families = self.context.shared.family_set();
        let (due, waiting): (Vec<_>, Vec<_>) =
            families.iter().filter(|family| jobs.is_due(family)).partition(|it| may_flush(it));
        let sealed_at = |family: &&ColumnFamily| {
            jobs.next_of(family).first().map_or(u64::MAX, |sealed| sealed.next_log_number)
        };
        match self.context.options.fixed().atomic_flush {
            true if !waiting.is_empty() => Vec::new(),
            true => due.into_iter().map(|family| Due::next_of(jobs, family)).collect(),
            false => {
                let oldest = due.into_iter().min_by_key(sealed_at).into_iter();
                oldest.map(|family| Due::next_of(jobs, family)).collect()
            }
        }
    }

    /// Writes the tables of a job, and installs every job that can then be installed.
    pub(super) fn run(&self, job: RunningJob<'_>) -> std::result::Result<(), FailedJob> {
        let _running = self.context.shared.activity.running_flushes.enter();
        match self.write_all_tables(&job.due) {
            Ok(flushed) => job.wait_to_be_installed(flushed),
            Err(error) => {
                let due = Arc::clone(&job.due);
                drop(job);
                return self.ended(&due, Err(error));
            }
        }
        while let Some((job, flushed)) = self.jobs.take_installable() {
            let installed = self.install(flushed, Logs::AsNeeded);
            let due = Arc::clone(&job.due);
            drop(job);
            self.ended(&due, installed)?;
        }
        self.release_logs();
        Ok(())
    }

    /// Notes the outcome of a job. If it failed, requests another flush of its memtables.
    fn ended(&self, due: &[Due], outcome: Result<()>) -> std::result::Result<(), FailedJob> {
        let families = || due.iter().map(|due| &due.family);
        update_stalls(&self.context, &families().collect::<Vec<_>>());
        match outcome {
            Ok(()) => {
                families().for_each(|family| self.note_success(family));
                Ok(())
            }
            Err(error) => {
                families().for_each(|family| family.request_flush(true));
                Err(FailedJob { families: families().cloned().collect(), error })
            }
        }
    }

    /// Refuses writes from now on if the tables take up the space that the `SstFileManager` allows.
    pub(crate) fn refuse_writes_if_full(&self) {
        if let Err(error) = self.context.files.check_space() {
            self.context.latch(FailedPart::Flush, &error);
        }
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
    fn write_all_tables(&self, due: &[Due]) -> Result<Vec<Flushed>> {
        let mut flushed = Vec::new();
        for due in due.iter().filter(|due| !due.memtables.is_empty()) {
            match self.write_tables(&due.family, &due.memtables, Work::Flush) {
                Ok(tables) => {
                    flushed.push(Flushed { due: due.clone(), tables, files: Vec::new() });
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
    fn remove_tables(&self, flushed: Vec<Flushed>) {
        for Flushed { due, tables, mut files } in flushed {
            if files.is_empty() {
                let written = |table: FlushedTable| Arc::new(FileMetadata::new(table.file));
                files = tables.into_iter().map(written).collect();
            }
            for file in &files {
                let removed =
                    self.versions.obsolete().remove_new(&due.family.readers().tables, file);
                if let Err(error) = removed {
                    self.context
                        .info_log
                        .warn(format_args!("cannot remove an unused table: {error}"));
                }
            }
        }
    }

    /// Installs the tables. These are steps 3 to 6 of the flush module's description.
    fn install(&self, mut flushed: Vec<Flushed>, logs: Logs) -> Result<()> {
        let synced = self.sync_closed_logs().and_then(|()| self.record_logs());
        if let Err(error) = synced.and_then(|()| self.open_tables(&mut flushed)) {
            // No MANIFEST names the tables yet, and a retry writes new tables.
            self.remove_tables(flushed);
            return Err(error);
        }
        let tables = flushed.iter_mut().flat_map(|flushed| &mut flushed.tables);
        let handovers = tables.filter_map(|table| table.table_handover.take());
        let warm = WarmInstallation::begin(handovers.collect());
        self.context.latch_on_unwind("a flush", || self.install_tables(flushed, warm, logs))
    }

    /// Gives the tables their epoch numbers, and opens them. This is step 4 of the flush module's
    /// description. As the flushes of a column family are installed in order, a table with newer
    /// records gets a higher number.
    fn open_tables(&self, flushed: &mut [Flushed]) -> Result<()> {
        for Flushed { due: Due { family, .. }, tables, files } in flushed {
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
        mut flushed: Vec<Flushed>,
        warm: WarmInstallation,
        logs: Logs,
    ) -> Result<()> {
        let current_log = self.logs.lock().current_number();
        let installation = self.versions.begin_installation();
        // Determined in the turn, when the flushes ahead have released their memtables. Otherwise
        // two flushes could each count the memtables of the other, and keep logs without need.
        let min_log_number = match logs {
            Logs::AsNeeded => self.oldest_needed_log(current_log, &flushed, None),
            Logs::From(number) => number,
        };
        // A column family that has been dropped no longer needs its table.
        let dropped: Vec<Flushed> =
            flushed.extract_if(.., |flushed| flushed.due.family.is_dropped()).collect();
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
        // The memtables are still there, so that callers who wait for the flush get the error.
        self.refuse_writes_if_full();
        // The empty iterators are the replaced tables: a flush replaces none.
        warm.install(&files, std::iter::empty()).forget(std::iter::empty());
        let mut installed = written.install();
        for Flushed { due: Due { family, memtables }, .. } in flushed {
            self.context.publish(&mut installed, &family, &memtables)?;
        }
        Ok(())
    }
}

impl Due {
    /// Returns all sealed memtables of a column family, and clears the request to flush them.
    fn all_of(family: &ColumnFamily) -> Self {
        family.request_flush(false);
        Self { family: family.clone(), memtables: family.sealed() }
    }

    /// Returns the sealed memtables of a column family that its next job flushes, and clears the
    /// request to flush them.
    fn next_of(jobs: &State, family: &ColumnFamily) -> Self {
        family.request_flush(false);
        let memtables = jobs.next_of(family);
        if jobs.unclaimed(family).len() > memtables.len() {
            // The others are newer than those of another job. The request was also for them.
            family.request_flush(true);
        }
        Self { family: family.clone(), memtables }
    }
}

impl Flushed {
    pub(super) fn holds(&self, memtable: &Arc<MemTable>) -> bool {
        self.due.memtables.iter().any(|sealed| Arc::ptr_eq(&sealed.memtable, memtable))
    }
}

/// Returns the MANIFEST edit of a flush.
fn edit(flushed: &Flushed, min_log_number: u64) -> VersionEdit {
    let Due { family, memtables } = &flushed.due;
    VersionEdit {
        column_family: family.id(),
        log_number: memtables.last().map(|sealed| sealed.next_log_number),
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
