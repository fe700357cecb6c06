//! Which memtables are flushed when, and what follows.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use tailwater_format::version_edit::{NewFile, VersionEdit};
use tailwater_io::sync;

use super::table::FlushedTable;
use crate::background::{Backoff, Task};
use crate::db::errors::FailedPart;
use crate::db::{ColumnFamily, FamilySet, SealedMemTable, Writer};
use crate::epoch::{self, heavy};
use crate::handover::{self, TableHandover};
use crate::memtable::MemTable;
use crate::stats::Work;
use crate::version::{FileMetadata, VersionSet};
use crate::{Error, Result};

/// The sealed memtables of a column family that are to be flushed.
struct Due<'a> {
    family: &'a ColumnFamily,
    memtables: Vec<SealedMemTable>,
}

/// The sealed memtables of a column family, and the table they became.
struct Flushed<'a> {
    family: &'a ColumnFamily,
    memtables: &'a [SealedMemTable],
    /// `None` where nothing was left to keep.
    table: Option<FlushedTable>,
    /// The table as versions are to have it, once it is open.
    file: Option<Arc<FileMetadata>>,
}

/// Which logs are needed when a flush is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Logs {
    /// Those that hold what is in memory.
    AsNeeded,
    /// None before this number, for any column family.
    From(u64),
}

impl Writer {
    /// What the flushing thread does until the database is closed.
    pub(crate) fn run_flushes(&self) {
        // Writers wait for it when memtables are full.
        sync::serve_users();
        loop {
            let task = self.background.next_flush();
            if task == Task::End {
                return;
            }
            if task == Task::Flush {
                self.flush_round();
            }
            let look_after = || {
                match task {
                    Task::Flush => self.compact_soon(),
                    Task::Idle | Task::End => self.look_after_snapshots(),
                }
                self.dump_statistics_if_due();
                self.sample_write_times_if_due();
            };
            // Refused writers get the failure.
            let _ = self.round(FailedPart::Upkeep, "the upkeep of statistics", look_after);
        }
    }

    /// Has sealed memtables flushed: by the thread for it, or here and now where there is none.
    pub(crate) fn flush_soon(&self) {
        if self.options().inline_background() {
            self.flush_here();
        } else {
            self.background.flush_soon();
        }
    }

    /// The same for who waits for it: what found no space is tried again at once.
    pub(super) fn flush_now(&self) {
        if self.options().inline_background() {
            self.flush_here();
        } else {
            self.background.flush_now();
        }
    }

    fn flush_here(&self) {
        self.flush_round();
        self.compact_soon();
    }

    /// Has compactions looked for when snapshots were released that kept what the last level could
    /// let go of.
    fn look_after_snapshots(&self) {
        let oldest = self.shared.snapshots.oldest_at_release();
        if self.oldest_looked_at.swap(oldest, Ordering::Relaxed) != oldest {
            self.background.compact_soon();
        }
    }

    /// Flushes what is to be flushed, and says how that ended.
    fn flush_round(&self) {
        let flushed = self.round(FailedPart::Flush, "a flush", || self.flush_until_done());
        self.background.round_ended(flushed.and_then(|done| done).err());
        // The memory of what was flushed is needed for what is written next.
        epoch::collect();
        heavy::collect();
    }

    /// Flushes what is to be flushed; after a shortage, of space or of open files, again and again
    /// until there is room.
    fn flush_until_done(&self) -> Result<()> {
        // Resuming flushes.
        self.errors.failure().map_or(Ok(()), Err)?;
        let mut backoff = Backoff::new(self.database.fixed().bgerror_resume_retry_interval);
        let mut tries_left = self.database.fixed().max_bgerror_resume_count;
        let failure = loop {
            let asked = self.background.asked();
            let flushed = self.flush_all_sealed();
            if flushed.is_err() {
                self.shared.activity.background_errors.add(1);
            }
            match flushed {
                Ok(()) => return Ok(()),
                Err(error) if error.is_shortage() && self.is_retried() => {
                    if tries_left <= 0 || self.background.is_closing() {
                        break error;
                    }
                    tries_left -= 1;
                    let pause = backoff.next_pause();
                    self.info_log.warn(format_args!(
                        "a flush found no {} and is retried in {pause:?}: {error}",
                        error.lacking(),
                    ));
                    self.background.round_ended(Some(error));
                    self.background.pause_flushes(pause, asked);
                    if self.background.asked().was_resumed_since(asked) {
                        backoff.restart();
                    }
                }
                Err(error) => break error,
            }
        };
        if self.errors.latched().is_none() {
            self.latch(self.failed_part(), &failure);
        }
        Err(failure)
    }

    /// Whether a flush that failed by a shortage can just be tried again: not where it left the
    /// MANIFEST or the log in doubt.
    fn is_retried(&self) -> bool {
        self.failed_part() == FailedPart::Flush && self.errors.latched().is_none()
    }

    fn failed_part(&self) -> FailedPart {
        match self.versions().failure() {
            Some(_) => FailedPart::Manifest,
            None => FailedPart::Flush,
        }
    }

    /// Flushes the sealed memtables of every column family that has enough of them.
    pub(crate) fn flush_all_sealed(&self) -> Result<()> {
        let _flushing = self.flushing();
        let families = self.shared.family_set();
        let due = self.due(&families);
        let flushed = if self.database.fixed().atomic_flush {
            self.flush_together(&due, Logs::AsNeeded)
        } else {
            due.chunks(1).try_for_each(|family| self.flush_together(family, Logs::AsNeeded))
        };
        if flushed.is_err() {
            due.iter().for_each(|due| due.family.request_flush(true));
        }
        flushed?;
        self.release_logs();
        Ok(())
    }

    /// Flushes all that is sealed, however little, and lets go of the logs before `number`, which
    /// holds the first entries of all active memtables. It takes effect at once for all column
    /// families.
    pub(crate) fn flush_leaving_logs(&self, number: u64) -> Result<()> {
        let _flushing = self.flushing();
        let families = self.shared.family_set();
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

    /// What is to be flushed, as it is at one moment: memtables that were sealed together are in it
    /// together.
    fn due<'a>(&self, families: &'a FamilySet) -> Vec<Due<'a>> {
        let _sealing = self.sealing();
        families.iter().filter(|family| family.wants_flush()).map(Due::of).collect()
    }

    /// Only one thread flushes at a time.
    fn flushing(&self) -> MutexGuard<'_, ()> {
        self.flushing.lock()
    }

    /// Flushes memtables of column families, which take effect together.
    fn flush_together(&self, due: &[Due<'_>], logs: Logs) -> Result<()> {
        let _running = self.shared.activity.running_flushes.enter();
        let flushed = self.write_tables(due).and_then(|flushed| {
            if !flushed.is_empty() || logs != Logs::AsNeeded {
                self.install(flushed, logs)?;
            }
            Ok(())
        });
        self.update_stall(&due.iter().map(|due| due.family).collect::<Vec<_>>());
        flushed
    }

    /// Steps 1 and 2, for several column families: all or none.
    fn write_tables<'a>(&self, due: &'a [Due<'a>]) -> Result<Vec<Flushed<'a>>> {
        let mut flushed: Vec<Flushed<'a>> = Vec::new();
        for &Due { family, ref memtables } in due.iter().filter(|due| !due.memtables.is_empty()) {
            match self.write_table(family, memtables, Work::Flush) {
                Ok(table) => flushed.push(Flushed { family, memtables, table, file: None }),
                Err(error) => {
                    self.remove_tables(flushed);
                    return Err(error);
                }
            }
        }
        Ok(flushed)
    }

    /// Removes tables that nothing refers to. One that stays is removed by the next open.
    fn remove_tables(&self, flushed: Vec<Flushed<'_>>) {
        for Flushed { family, table, file, .. } in flushed {
            let written = || table.map(|table| Arc::new(FileMetadata::new(table.file)));
            let Some(file) = file.or_else(written) else { continue };
            if let Err(error) = self.remove_new_table(&family.readers().tables, &file) {
                self.info_log.warn(format_args!("an obsolete table could not be removed: {error}"));
            }
        }
    }

    /// Steps 3 to 6.
    fn install(&self, mut flushed: Vec<Flushed<'_>>, logs: Logs) -> Result<()> {
        let synced = self.sync_closed_logs().and_then(|()| self.record_logs());
        if let Err(error) = synced.and_then(|()| self.open_tables(&mut flushed)) {
            // No MANIFEST names them yet, and another try writes them anew.
            self.remove_tables(flushed);
            return Err(error);
        }
        let min_log_number = match logs {
            Logs::AsNeeded => self.oldest_needed_log(&flushed, None),
            Logs::From(number) => number,
        };
        let tables = flushed.iter_mut().filter_map(|flushed| flushed.table.as_mut());
        tables
            .filter_map(|table| table.table_handover.as_mut())
            .for_each(TableHandover::copy_into_cache);
        self.halfway("a flush", || self.install_tables(flushed, logs, min_log_number))
    }

    /// Step 4: the tables get their epoch numbers and are opened.
    fn open_tables(&self, flushed: &mut [Flushed<'_>]) -> Result<()> {
        for Flushed { family, table, file, .. } in flushed {
            let Some(table) = table else { continue };
            let epoch_number = self.versions().take_epochs(family.id(), 1);
            // A column family that was dropped meanwhile needs its table no more.
            let Some(epoch_number) = epoch_number else { continue };
            let added = NewFile { epoch_number, ..table.file.clone() };
            let added = Arc::clone(file.insert(Arc::new(FileMetadata::new(added))));
            self.open_new_tables(family, &[added])?;
        }
        Ok(())
    }

    /// Steps 5 and 6.
    fn install_tables(
        &self,
        mut flushed: Vec<Flushed<'_>>,
        logs: Logs,
        min_log_number: u64,
    ) -> Result<()> {
        let installation = self.versions.begin_installation();
        // A column family that was dropped meanwhile needs its table no more.
        let dropped: Vec<Flushed<'_>> =
            flushed.extract_if(.., |flushed| flushed.family.is_dropped()).collect();
        let mut edits: Vec<VersionEdit> =
            flushed.iter().map(|it| edit(it, min_log_number)).collect();
        if let Logs::From(number) = logs {
            leave_logs(&mut edits, &installation.versions(), number);
        }
        let files: Vec<_> = flushed.iter().filter_map(|it| it.file.clone()).collect();
        let written = self.write_edits(installation, edits, &files);
        // No edit names them, whatever came of the others.
        self.remove_tables(dropped);
        let written = written?;
        for Flushed { family, table, .. } in &mut flushed {
            if let (Some(table), Some(version)) = (table, written.version(family.id())) {
                let table_handover = table.table_handover.take();
                handover::install(version, table_handover.map(|it| (table.file.number, it)));
            }
        }
        let installed = written.install();
        for Flushed { family, memtables, .. } in flushed {
            match installed.families().get(&family.id()) {
                Some(known) => family.install(Arc::clone(&known.version), memtables),
                None => return Err(Error::internal("a column family lost its version")),
            }
        }
        Ok(())
    }

    /// The lowest number of a log that is needed once `dropped` is dropped.
    pub(crate) fn oldest_needed_log_without(&self, dropped: &ColumnFamily) -> u64 {
        self.oldest_needed_log(&[], Some(dropped))
    }

    /// The lowest number of a log that is needed once `flushed` is in tables and `dropped` is
    /// dropped.
    fn oldest_needed_log(&self, flushed: &[Flushed<'_>], dropped: Option<&ColumnFamily>) -> u64 {
        // Read first: what comes into an empty memtable from here on is in this log or a later one.
        let mut oldest = self.logs().current_number();
        let families = self.shared.family_set();
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

    /// Has the next edit of the MANIFEST say which logs there are, so that one that is missing
    /// later is missed. Their directory entries are synced first.
    pub(crate) fn record_logs(&self) -> Result<()> {
        let (directory, logs) = {
            let logs = self.logs();
            (logs.directory().to_owned(), logs.live_numbers())
        };
        if !self.versions().knows_logs(&logs) {
            self.storage.sync_directory(&directory)?;
            self.versions().set_existing_logs(logs);
        }
        Ok(())
    }

    /// Step 7: lets go of the logs that the MANIFEST says hold nothing that is not in tables. None
    /// that it calls needed goes: replay would take that for a loss.
    pub(crate) fn release_logs(&self) {
        let oldest = self.versions().min_log_number();
        let unneeded = self.logs().release(oldest);
        for path in unneeded {
            if let Err(error) = self.storage.remove(&path) {
                self.info_log.warn(format_args!("an obsolete log could not be removed: {error}"));
            }
        }
    }
}

impl<'a> Due<'a> {
    fn of(family: &'a ColumnFamily) -> Self {
        // What is sealed from here on asks for its own flush.
        family.request_flush(false);
        Self { family, memtables: family.sealed() }
    }
}

impl Flushed<'_> {
    fn holds(&self, memtable: &Arc<MemTable>) -> bool {
        self.memtables.iter().any(|sealed| Arc::ptr_eq(&sealed.memtable, memtable))
    }
}

/// Returns the MANIFEST edit of a flush.
fn edit(flushed: &Flushed<'_>, min_log_number: u64) -> VersionEdit {
    let new_files = flushed.file.as_ref().map(|file| file.added().clone());
    VersionEdit {
        column_family: flushed.family.id(),
        log_number: flushed.memtables.last().map(|sealed| sealed.next_log_number),
        min_log_number_to_keep: Some(min_log_number),
        new_files: new_files.into_iter().collect(),
        ..VersionEdit::default()
    }
}

/// Adds to the edits of a flush that no column family needs a log before `number`, those neither
/// that have nothing to flush.
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
