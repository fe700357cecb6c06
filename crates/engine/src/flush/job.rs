//! Runs flush jobs: chooses the memtables, writes their tables and installs them.

use std::collections::BTreeSet;
use std::sync::Arc;

use tailwater_format::version_edit::{NewFile, VersionEdit};

use super::due::Due;
use super::jobs::{Paused, RunningJob, ToInstall};
use super::scheduler::FlushScheduler;
use super::table::FlushedTable;
use crate::background::{Attempt, Ended, FailedPart};
use crate::column_family::{ColumnFamily, FlushReason};
use crate::compaction::update_stalls;
use crate::error::{Error, Result};
use crate::memtable::MemTable;
use crate::stats::{Histogram, Work};
use crate::table::{FileMetadata, WarmInstallation};
use crate::version::VersionSet;
use crate::write_buffer_manager::RunningFlush;

/// The sealed memtables of a column family, and their tables.
pub(crate) struct Flushed {
    pub(super) due: Due,
    /// The tables that hold the records of the memtables, in key order; none if no record was left
    /// to write.
    tables: Vec<FlushedTable>,
    /// Metadata of the tables; none until the tables are opened.
    files: Vec<Arc<FileMetadata>>,
}

/// A job that failed.
pub(super) struct FailedJob {
    /// The IDs of its column families.
    pub(super) families: Vec<u32>,
    pub(super) attempt: Attempt,
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
        let mut goes_on = true;
        while goes_on {
            let may_flush = |family: &ColumnFamily| !failed.contains(&family.id());
            let job = self.jobs.begin_paused(&paused, |state| self.choose(state, may_flush));
            let Some(job) = job else { return result };
            self.run(job, |FailedJob { families, error, .. }| {
                failed.extend(families);
                goes_on &= self.is_retried(&error);
                if result.is_ok() {
                    result = Err(error);
                }
            });
        }
        result
    }

    /// Flushes all sealed memtables, however small, and releases the logs with numbers below
    /// `number`. No active memtable may have entries in those logs. The flush takes effect
    /// atomically for all column families.
    fn flush_leaving_logs(&self, number: u64) -> Result<()> {
        let _running = self.note_running();
        let families = self.context.shared.family_set();
        let due: Vec<_> = {
            let _sealing = self.sealing();
            families.iter().map(Due::all_of).collect()
        };
        let flushed = self.write_all_tables(&due);
        let installed = flushed.and_then(|flushed| self.install(flushed, Logs::From(number)));
        self.note_outcome(&due, installed)?;
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
                family.seal(number, sequence, FlushReason::Other)
            }
            family.request_flush(true);
        }
        drop(sealing);
        self.flush_leaving_logs(number)
    }

    /// Ends the jobs of a database whose background work has ended.
    pub(crate) fn discard_jobs(&self, _ended: &Ended) {
        self.discard_written();
    }

    /// Removes the tables of the jobs that wait to be installed, and ends these jobs.
    fn discard_written(&self) {
        self.remove_tables(self.jobs.take_written());
    }

    /// Writes the tables of a job, and installs every job that can then be installed. Calls
    /// `failed` for each job that fails, and then reports the outcome to waiting callers.
    pub(super) fn run(&self, job: RunningJob<'_>, mut failed: impl FnMut(FailedJob)) {
        let _running = self.note_running();
        let next = match self.write_all_tables(&job.work().due) {
            Ok(flushed) => job.written(flushed),
            Err(error) => self.end(job, Err(error), &mut failed),
        };
        self.install_all(next, failed);
    }

    /// Ends the jobs that wait for the flush of an older memtable of a column family that was
    /// dropped: nobody needs their tables.
    pub(crate) fn install_dropped(&self) {
        let failed = |job| self.job_failed(job);
        self.install_all(self.jobs.take_installable(), failed);
    }

    fn install_all(&self, mut next: Option<ToInstall<'_>>, mut failed: impl FnMut(FailedJob)) {
        while let Some((job, flushed)) = next {
            let installed = self.install(flushed, Logs::AsNeeded);
            next = self.end(job, installed, &mut failed);
        }
    }

    /// Lets the write buffer manager know that a flush runs, until the result is dropped.
    fn note_running(&self) -> Option<RunningFlush<'_>> {
        let manager = self.context.readers.write_buffer_manager.as_ref();
        manager.map(|manager| manager.begin_flush())
    }

    /// Ends a job, and reports its outcome. Returns the next job to install.
    fn end<'j>(
        &self,
        job: RunningJob<'j>,
        outcome: Result<()>,
        failed: &mut impl FnMut(FailedJob),
    ) -> Option<ToInstall<'j>> {
        let chosen = Arc::clone(job.work());
        let next = job.ended();
        match self.note_outcome(&chosen.due, outcome) {
            Ok(()) => self.release_logs(),
            Err(error) => {
                let families = chosen.due.iter().map(|due| due.family.id()).collect();
                failed(FailedJob { families, attempt: chosen.attempt, error });
            }
        }
        self.context.background.round_ended();
        next
    }

    /// Notes the outcome of a flush, and returns it. If it failed, requests another flush of its
    /// memtables.
    fn note_outcome(&self, due: &[Due], outcome: Result<()>) -> Result<()> {
        let families = || due.iter().map(|due| &due.family);
        update_stalls(&self.context, &families().collect::<Vec<_>>());
        match &outcome {
            Ok(()) => families().for_each(|family| self.note_success(family)),
            Err(_) => families().for_each(|family| family.request_flush(true)),
        }
        outcome
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
            self.count_begun(due);
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

    /// Counts a flush that begins. Its reason is that for which its newest memtable was sealed.
    fn count_begun(&self, due: &Due) {
        let statistics = self.context.shared.statistics.as_deref();
        let (Some(statistics), Some(newest)) = (statistics, due.memtables.last()) else { return };
        let memtables = || due.memtables.iter().map(|sealed| &sealed.memtable);
        let memory_bytes: usize = memtables().map(|memtable| memtable.memory_usage()).sum();
        let data_bytes: u64 = memtables()
            .map(|memtable| memtable.counters())
            .map(|counters| counters.key_bytes + counters.value_bytes)
            .sum();
        let memory_bytes = memory_bytes as u64;
        let recorder = statistics.recorder();
        recorder.record(Histogram::FlushMemoryBytes, memory_bytes);
        recorder.record(Histogram::FlushDataBytes, data_bytes);
        if let Some(ticker) = newest.reason.ticker() {
            recorder.add(ticker, 1);
        }
        match newest.reason {
            FlushReason::WriteBufferFull => {
                recorder.record(Histogram::FlushFullMemoryBytes, memory_bytes);
            }
            FlushReason::WriteBufferManager => {
                recorder.record(Histogram::FlushManagerMemoryBytes, memory_bytes);
            }
            FlushReason::RangeDeletions | FlushReason::Other => {}
        }
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
