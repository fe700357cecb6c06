//! A recovered database, and the last steps of recovery: flushing or keeping the old logs, and
//! removing leftover files.

use std::path::Path;
use std::sync::Arc;

use tailwater_format::file_name::FileKind;
use tailwater_format::version_edit::{NewFile, VersionEdit};

use super::second_replay::{RecoveredTables, SecondReplay};
use crate::column_family::ColumnFamily;
use crate::compaction::CompactionScheduler;
use crate::context::Context;
use crate::directory::{Directories, Locks, Needed};
use crate::env::Threads;
use crate::error::{Error, Result};
use crate::flush::{FlushScheduler, in_epochs};
use crate::inspect::table::TableFile;
use crate::left_out::LeftOut;
use crate::open_options::OptionsFiles;
use crate::version::Versions;
use crate::write::WritePath;

/// A database with all its components. The contents of its old logs either were flushed to tables
/// or are in memtables; in the second case, the logs are kept.
pub(crate) struct Recovered {
    pub(crate) context: Arc<Context>,
    pub(crate) versions: Arc<Versions>,
    pub(crate) compactions: Arc<CompactionScheduler>,
    pub(crate) flushes: Arc<FlushScheduler>,
    pub(crate) writes: Arc<WritePath>,
    pub(crate) options_files: OptionsFiles,
    /// The threads that do the background work; `None` if callers do it.
    pub(crate) threads: Option<Arc<Threads>>,
    /// Held until the database is closed.
    pub(crate) locks: Locks,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) warnings: Vec<String>,
    /// Whether this opening created the database.
    pub(crate) is_new: bool,
}

impl Recovered {
    /// Keeps the old logs. Their contents stay in memtables. `oldest_log` is the number of the
    /// oldest log.
    pub(super) fn keep_logs(&self, oldest_log: u64) -> Result<()> {
        // Applying an edit, even an empty one, also writes to the MANIFEST which logs exist.
        self.apply_recovered(vec![VersionEdit::default()])?;
        for family in self.context.shared.family_set().iter() {
            family.active().begin_at(oldest_log, 0);
        }
        Ok(())
    }

    /// Flushes the contents of the old logs, which are in memtables or are replayed again. `number`
    /// is the number of the new log, which becomes the oldest log that is needed.
    pub(super) fn flush_logs(
        &mut self,
        number: u64,
        second_replay: Option<SecondReplay>,
    ) -> Result<()> {
        let mut tables = RecoveredTables::default();
        if let Some(second_replay) = second_replay {
            second_replay.run(self, number, &mut tables)?;
        }
        tables.write_memtables(self, number)?;
        let table_count = tables.count();
        let families = self.context.shared.family_set();
        let mut edits = Vec::new();
        for family in families.iter() {
            edits.push(self.recovered_edit(family, tables.take(family.id()), number)?);
        }
        self.apply_recovered(edits)?;
        for family in families.iter() {
            let version = self
                .versions
                .lock()
                .families()
                .get(&family.id())
                .map(|known| Arc::clone(&known.version));
            let version = version.ok_or_else(|| Error::lost_version(family.name()))?;
            family.begin_anew(version, number, self.context.published());
        }
        if table_count > 0 {
            let message = format_args!("the logs were flushed to {table_count} tables");
            self.context.info_log.info(message);
        }
        // The logs are removed together with the other leftover files.
        drop(self.writes.logs().release(number, false));
        Ok(())
    }

    fn apply_recovered(&self, edits: Vec<VersionEdit>) -> Result<()> {
        let installation = self.versions.begin_installation();
        drop(installation.write(edits, &[], self.context.published(), |_| ())?.install());
        Ok(())
    }

    fn recovered_edit(
        &self,
        family: &ColumnFamily,
        tables: Vec<NewFile>,
        number: u64,
    ) -> Result<VersionEdit> {
        let epochs = self.versions.lock().take_epochs(family.id(), tables.len());
        let first_epoch = epochs.ok_or_else(|| Error::lost_version(family.name()))?;
        Ok(VersionEdit {
            column_family: family.id(),
            log_number: Some(number),
            min_log_number_to_keep: Some(number),
            new_files: in_epochs(tables.into_iter(), first_epoch),
            ..VersionEdit::default()
        })
    }

    /// Removes files that nothing refers to.
    pub(super) fn clear(&self, directories: &Directories) -> Result<()> {
        let families = self.context.shared.family_set();
        let needed = Needed {
            oldest_log: self.writes.logs().oldest_number(),
            manifest: self.versions.manifest_number(),
            ..needed_files(families.iter())
        };
        for path in directories.left_over(&needed) {
            if self.is_table_of_another(&path) {
                let path = path.display();
                self.context
                    .info_log
                    .warn(format_args!("{path} is kept: another database created it"));
                continue;
            }
            let files = &self.context.files;
            let removed = match directories.is_unused(&path) {
                // The claim on the directory is given up below. Nobody would own its trash.
                true => files.remove_at_once(&path),
                false => files.remove_left_over(&path),
            };
            match removed {
                Ok(()) => self
                    .context
                    .info_log
                    .info(format_args!("removed leftover file {}", path.display())),
                // The directories were listed when the database began to be opened. A temporary
                // file found there may have been overwritten and renamed since.
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    self.context
                        .info_log
                        .warn(format_args!("cannot remove a leftover file: {error}"));
                }
            }
        }
        directories.give_up_unused(&*self.context.storage, &needed)
    }

    /// Whether a file outside the database's home directory is a table that another database
    /// created, or was one before it became trash. That database may still use the table: RocksDB
    /// does not claim directories, and may write tables there.
    fn is_table_of_another(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| FileKind::parse(&name.to_string_lossy()));
        let origin = name.map(|kind| match kind {
            FileKind::Trash(trash) => trash.origin(),
            kind => kind,
        });
        let is_table = matches!(origin, Some(FileKind::Table(_) | FileKind::LevelDbTable(_)));
        if !is_table || path.parent() == Some(&self.context.directory) {
            return false;
        }
        let Ok(table) = TableFile::open(&*self.context.storage, path) else { return false };
        table.properties().as_ref().is_ok_and(|properties| {
            !properties.db_id.is_empty()
                && properties.db_id != self.context.identity.database_id.as_bytes()
        })
    }
}

/// Returns the files that column families refer to: their tables and blob files.
pub(super) fn needed_files<'a>(families: impl IntoIterator<Item = &'a ColumnFamily>) -> Needed {
    let mut needed = Needed::default();
    for family in families {
        let source = family.super_version();
        let version = source.version();
        needed.tables.extend(version.files().map(|(_, file)| file.number()));
        needed.blob_files.extend(version.blob_files().keys());
    }
    needed
}
