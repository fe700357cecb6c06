//! Checkpoints: a checkpoint is a second database that shares the tables of the first.
//!
//! # Order
//!
//! 1. All memtables are flushed while writes wait. The tables then hold all data, so the checkpoint
//!    needs no log. Or, if the options prefer it, the logs are kept as they are at a moment without
//!    writes, and copied in the next step.
//! 2. A staging directory is created, which contains a mark file. The mark is locked, so that no
//!    other process builds a checkpoint there. Tables and blob files are linked into the staging
//!    directory, or copied if they cannot be linked.
//! 3. MANIFEST, both options files, IDENTITY and CURRENT are written there and synced. The options
//!    name no directories, because all files of the checkpoint are in its own directory.
//! 4. The directory is renamed to its final name, and then the mark is removed. The rename fails if
//!    a file, or a directory that is not empty, has been created with the final name meanwhile; an
//!    empty directory is replaced. If the rename or the removal of the mark cannot be made durable,
//!    both are undone, and only then are the staged files removed.
//!
//! A crash before step 4 leaves a marked directory whose name ends in `.tmp`. The next checkpoint
//! with the same final name replaces this directory. A directory without the mark was not made by a
//! checkpoint and is kept.
//!
//! A crash in step 4 leaves a checkpoint with the mark; the mark is removed when the checkpoint is
//! first opened for writing. The call that creates a checkpoint returns only when the removal of
//! the mark is durable. The reason is that the final name may itself end in `.tmp`, so that a later
//! checkpoint could take the finished checkpoint for a staging directory and replace it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tailwater_format::file_name::FileKind;
use tailwater_format::version_edit::VersionEdit;
use tailwater_io::{Create, FileLock, Purpose};

use crate::column_family::{ColumnFamily, SuperVersion};
use crate::db::{Database, Db};
use crate::directory::{create_directory, sync_parent};
use crate::error::{Error, Result};
use crate::file_copy::{CopyModes, copy, link_or_copy};
use crate::options::Options;
use crate::setters::setters;
use crate::version::{set_current, write_manifest, write_whole};
use crate::wal::KeptLogs;

impl Db {
    /// Creates a second database in `directory`, which must not exist, with the current contents of
    /// this database. The second database shares the tables by hard links if the filesystem
    /// supports them. Writes wait while memtables are flushed.
    ///
    /// # Errors
    /// Invalid argument, if the path exists; errors from writing files.
    pub fn checkpoint(&self, directory: impl AsRef<Path>) -> Result<()> {
        self.checkpoint_opt(directory, &CheckpointOptions::default())
    }

    /// Like [`Db::checkpoint`], with options.
    ///
    /// # Errors
    /// Those of [`Db::checkpoint`].
    pub fn checkpoint_opt(
        &self,
        directory: impl AsRef<Path>,
        options: &CheckpointOptions,
    ) -> Result<()> {
        self.database()?.checkpoint(directory.as_ref(), options)
    }
}

/// Options of a checkpoint. Name and default are those of RocksDB's `CreateCheckpointOptions`.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let db = tailwater::Db::open_default(directory.path().join("db"))?;
/// use tailwater::{CheckpointOptions, Db};
///
/// db.put("key", "value")?;
/// let copy = directory.path().join("copy");
/// db.checkpoint_opt(&copy, &CheckpointOptions::new().with_log_size_for_flush(1 << 20))?;
/// assert_eq!(db.live_files().len(), 0);
/// assert_eq!(Db::open_default(&copy)?.get("key")?.as_deref(), Some(&b"value"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointOptions {
    /// The total length of the logs, in bytes, from which on the memtables are flushed. Below it,
    /// the logs are copied instead, and writes wait only until they are known. With 0, the default,
    /// memtables are always flushed. Also after a write that was not logged, they always are.
    pub log_size_for_flush: u64,
}

impl CheckpointOptions {
    /// Returns the default options.
    pub const fn new() -> Self {
        Self { log_size_for_flush: 0 }
    }
}

setters!(CheckpointOptions {
    with_log_size_for_flush(log_size_for_flush: u64),
});

/// Number of a checkpoint's MANIFEST. No table has this number.
const MANIFEST: u64 = 1;

/// What a checkpoint contains.
struct Contents {
    edits: Vec<VersionEdit>,
    /// For each column family, a super version that keeps the family's files from being removed.
    sources: Vec<std::sync::Arc<SuperVersion>>,
    /// The logs to copy; `None` if all data is in tables.
    logs: Option<KeptLogs>,
}

impl Database {
    /// Creates a checkpoint in `directory`, which must not exist.
    fn checkpoint(&self, directory: &Path, options: &CheckpointOptions) -> Result<()> {
        let _working = self.context.background.begin_work()?;
        let storage = &*self.context.storage;
        // Strips a trailing slash. With the slash, the staging directory would be inside
        // `directory`.
        let directory: &Path = &directory.components().collect::<PathBuf>();
        let Some(name) = directory.file_name() else {
            let message = "a checkpoint needs a path that ends with a name";
            return Err(Error::invalid_argument(message).in_file(directory));
        };
        if storage.metadata(directory).is_ok() {
            let message = "the checkpoint's path exists already";
            return Err(Error::invalid_argument(message).in_file(directory));
        }
        let mut staging = name.to_owned();
        staging.push(".tmp");
        let staging = directory.with_file_name(staging);
        let _lock = self.begin_staging(&staging)?;
        let contents = match self.checkpoint_contents(options) {
            Ok(contents) => contents,
            Err(error) => return self.give_up_staging(&staging, error),
        };
        if let Err(error) = self.fill_checkpoint(&staging, &contents) {
            return self.give_up_staging(&staging, error);
        }
        if let Err(error) = storage.rename(&staging, directory) {
            return self.give_up_staging(&staging, error.into());
        }
        if let Err(error) = self.end_staging(directory) {
            return match self.unname_checkpoint(&staging, directory) {
                Ok(()) => self.give_up_staging(&staging, error),
                // Step 4 of the module's description failed and could not be undone. What remains
                // is a complete checkpoint. It has the final or the staging name, with or without
                // the mark file of an unfinished checkpoint.
                Err(stays) => {
                    self.context
                        .info_log
                        .warn(format_args!("a failed checkpoint was not removed: {stays}"));
                    Err(error)
                }
            };
        }
        self.context.info_log.info(format_args!("created a checkpoint in {}", directory.display()));
        Ok(())
    }

    /// Makes the rename of `directory` to its final name durable. Then removes the mark file, which
    /// marks the directory as an unfinished checkpoint. This is the rest of step 4 in the module's
    /// description.
    fn end_staging(&self, directory: &Path) -> Result<()> {
        let storage = &*self.context.storage;
        sync_parent(storage, directory)?;
        let [mark, aside] = marks(directory);
        // The mark is renamed rather than removed: if the sync fails, the mark must be restored,
        // and creating a file could fail for lack of space.
        storage.rename(&mark, &aside)?;
        storage.sync_directory(directory)?;
        // If this removal fails, the file is removed when the checkpoint is first opened for
        // writing.
        let _ = storage.remove(&aside);
        Ok(())
    }

    /// Undoes step 4 of the module's description: restores the mark file and the staging name, and
    /// so marks the checkpoint as unfinished. The staged files are removed after this. A crash
    /// during their removal thus leaves a staging directory, and no incomplete checkpoint under the
    /// final name.
    fn unname_checkpoint(&self, staging: &Path, directory: &Path) -> Result<()> {
        let storage = &*self.context.storage;
        let [mark, aside] = marks(directory);
        if storage.metadata(&mark).is_err() {
            storage.rename(&aside, &mark)?;
        }
        storage.sync_directory(directory)?;
        storage.rename(directory, staging)?;
        Ok(sync_parent(storage, staging)?)
    }

    /// Keeps the logs or flushes the memtables, which is step 1 of the module's description.
    /// Returns the contents of the checkpoint.
    fn checkpoint_contents(&self, options: &CheckpointOptions) -> Result<Contents> {
        if options.log_size_for_flush > 0 {
            let leadership = self.writes.lead()?;
            self.context.errors.check()?;
            let logs = self.writes.keep_logs(&leadership, options.log_size_for_flush)?;
            if logs.is_some() {
                return Ok(self.contents(logs));
            }
        }
        // Flushes once while writes continue. Only the data written since then is flushed while
        // writes wait.
        let families = self.context.shared.family_set();
        self.writes.flush(&families.iter().collect::<Vec<_>>())?;
        let leadership = self.writes.lead()?;
        self.context.errors.check()?;
        let families = self.context.shared.family_set();
        let all: Vec<_> = families.iter().collect();
        let awaited = self.writes.seal_for_flush(&leadership, &all)?;
        self.writes.wait_for_flush(&awaited)?;
        Ok(self.contents(None))
    }

    /// Returns the current contents of the tables, and `logs`.
    fn contents(&self, logs: Option<KeptLogs>) -> Contents {
        // Versions are installed under this lock, so `edits` names exactly the files that `sources`
        // keeps from being removed.
        let versions = self.versions.lock();
        let edits = versions.snapshot();
        let families = self.context.shared.family_set();
        let sources = families.iter().map(ColumnFamily::super_version).collect();
        drop(versions);
        Contents { edits, sources, logs }
    }

    /// Fills the staging directory. This is the rest of step 2, and step 3, of the module's
    /// description.
    fn fill_checkpoint(&self, aside: &Path, contents: &Contents) -> Result<()> {
        let storage = &*self.context.storage;
        let io_modes = &self.context.shared.io_modes;
        let purpose = Purpose::Checkpoint;
        for warning in io_modes.try_in(storage, aside, &[purpose])? {
            self.context.info_log.warn(format_args!("{warning}"));
        }
        for (from, name) in self.checkpoint_files(contents) {
            let modes = CopyModes {
                source: io_modes.mode_of_file(purpose, &from),
                target: io_modes.mode(purpose, aside),
            };
            link_or_copy(storage, &from, &aside.join(name), modes)?;
        }
        for log in contents.logs.iter().flat_map(KeptLogs::iter) {
            let modes = CopyModes {
                source: io_modes.mode_of_file(purpose, &log.path),
                target: io_modes.mode(purpose, aside),
            };
            let to = aside.join(FileKind::Wal(log.number).to_string());
            copy(storage, &log.path, Some(log.end), &to, modes)?;
        }
        let all = self.checkpoint_options();
        let options = all.to_document().to_text();
        let number = self.context.numbers.take();
        let name = FileKind::Options(number).to_string();
        write_whole(storage, &aside.join(name), options.as_bytes(), Purpose::Checkpoint)?;
        if let Some(own) = all.database.tailwater.to_text() {
            let path = aside.join(FileKind::TailwaterOptions.to_string());
            write_whole(storage, &path, own.as_bytes(), Purpose::Checkpoint)?;
        }
        let id = self.context.identity.database_id.as_bytes();
        let identity = aside.join(FileKind::Identity.to_string());
        write_whole(storage, &identity, id, Purpose::Checkpoint)?;
        let mut edits = contents.edits.clone();
        for edit in &mut edits {
            // All files of a checkpoint are in its own directory.
            edit.new_files.iter_mut().for_each(|file| file.path_id = 0);
            // The checkpoint's OPTIONS file has these options, without directories.
            edit.family_options = None;
        }
        let last_log = edits.iter().filter_map(|edit| edit.log_number).max();
        if let Some(number) = last_log.filter(|_| contents.logs.is_none()) {
            // The checkpoint has no data in logs. But the MANIFEST of a database that tracks its
            // logs lists them, and a database in which all listed logs are missing is refused. So
            // the checkpoint gets one empty log.
            let log = aside.join(FileKind::Wal(number).to_string());
            write_whole(storage, &log, &[], Purpose::Checkpoint)?;
            edits.iter_mut().for_each(|edit| edit.existing_logs = None);
            edits.extend([VersionEdit {
                existing_logs: Some(vec![number]),
                ..VersionEdit::default()
            }]);
        }
        write_manifest(storage, aside, Create::New, MANIFEST, &edits)?;
        set_current(storage, aside, MANIFEST, MANIFEST)
    }

    /// Returns every table and blob file that the checkpoint shares with the database: its path in
    /// the database, and its name in the checkpoint.
    fn checkpoint_files(&self, contents: &Contents) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        for source in &contents.sources {
            let version = source.version();
            for (_, file) in version.files() {
                let name = FileKind::Table(file.number()).to_string();
                files.insert(source.tables().path(file), name);
            }
            for &number in version.blob_files().keys() {
                let name = FileKind::Blob(number).to_string();
                files.insert(source.blobs().path(number), name);
            }
        }
        files
    }

    /// Returns the options of the checkpoint: those of the database, without directories.
    fn checkpoint_options(&self) -> Options {
        let mut options = self.all_options();
        options.database.wal_dir.clear();
        options.database.db_paths.clear();
        for (_, family) in &mut options.column_families {
            family.cf_paths.clear();
        }
        options
    }

    /// Creates the staging directory of a checkpoint. The directory contains only a locked mark
    /// file, the sign that the checkpoint is unfinished. If the directory already has files of an
    /// earlier unfinished checkpoint, they are removed first.
    ///
    /// # Errors
    /// Invalid argument, if the directory already exists with files but without a mark file; busy,
    /// if another checkpoint is being built in it.
    fn begin_staging(&self, staging: &Path) -> Result<Box<dyn FileLock>> {
        let storage = &*self.context.storage;
        let mark = FileKind::Staging.to_string();
        let is_somebodys = match storage.list(staging) {
            Ok(entries) => !entries.is_empty() && !entries.iter().any(|entry| entry.name == mark),
            Err(error) if error.is_not_found() => false,
            Err(error) => return Err(error.into()),
        };
        if is_somebodys {
            let message = "the checkpoint is staged in this directory, which has other contents; \
                           remove it, or choose another path for the checkpoint";
            return Err(Error::invalid_argument(message).in_file(staging));
        }
        create_directory(storage, staging)?;
        let lock = storage.lock(&staging.join(&mark)).map_err(|error| {
            Error::from(error).while_doing("another checkpoint is being staged there")
        })?;
        for entry in storage.list(staging)?.iter().filter(|entry| entry.name != mark) {
            storage.remove(&staging.join(&entry.name))?;
        }
        // The mark file must be durable before other files are written to the directory, so that
        // after a crash the directory is known to be an unfinished checkpoint.
        storage.sync_directory(staging)?;
        Ok(lock)
    }

    /// Removes an unfinished checkpoint, and returns `error`.
    fn give_up_staging(&self, staging: &Path, error: Error) -> Result<()> {
        if let Err(stays) = self.remove_staging(staging) {
            // The next checkpoint with the same final name removes the remains.
            self.context.info_log.warn(format_args!("an unfinished checkpoint remains: {stays}"));
        }
        Err(error)
    }

    fn remove_staging(&self, staging: &Path) -> Result<()> {
        let storage = &*self.context.storage;
        let mark = FileKind::Staging.to_string();
        // The mark file is removed last. If a crash interrupts the removal, the directory is still
        // marked as an unfinished checkpoint.
        for entry in storage.list(staging)?.iter().filter(|entry| entry.name != mark) {
            storage.remove(&staging.join(&entry.name))?;
        }
        storage.sync_directory(staging)?;
        match storage.remove(&staging.join(mark)) {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => storage.remove_directory(staging)?,
        }
        Ok(())
    }
}

/// Returns two paths in a checkpoint's directory: the path of the mark file, and the path to which
/// the mark file is renamed before it is removed.
fn marks(directory: &Path) -> [PathBuf; 2] {
    [FileKind::Staging, FileKind::Temporary(0)].map(|kind| directory.join(kind.to_string()))
}
