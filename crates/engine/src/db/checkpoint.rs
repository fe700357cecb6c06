//! Checkpoints: a second database that shares the first one's tables.
//!
//! # Order
//!
//! 1. Nobody writes while everything in memory is flushed; so tables alone hold all there is, and
//!    the checkpoint needs no log.
//! 2. In a staging directory, which is marked as one, tables and blob files are linked, or copied
//!    where links cannot be. The mark is locked, so that nobody else assembles one there.
//! 3. MANIFEST, both files of options, IDENTITY and CURRENT are written there and synced. The
//!    options name no directory: everything is in the checkpoint's own.
//! 4. The directory gets its name, unless there is something of that name by now, and then the mark
//!    goes. If one of the two cannot be made to last, both are undone before anything is removed.
//!
//! A crash before step 4 leaves a marked directory whose name ends in `.tmp`, which the next
//! checkpoint of that name replaces. One without the mark is somebody's and stays. A crash in step
//! 4 leaves a checkpoint with the mark, which its first opening for writing removes. The mark is
//! gone for good before the checkpoint is reported: the checkpoint's own name may end in `.tmp`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tailwater_format::file_name::FileKind;
use tailwater_format::version_edit::VersionEdit;
use tailwater_io::{FileLock, Purpose};

use crate::db::{SuperVersion, Writer};
use crate::directory::{create_directory, sync_parent};
use crate::file_copy::{CopyModes, link_or_copy};
use crate::options::Options;
use crate::version::{set_current, write_manifest, write_whole};
use crate::{Error, Result};

/// The number of a checkpoint's MANIFEST: no table has it.
const MANIFEST: u64 = 1;

/// What a checkpoint consists of.
struct Contents {
    edits: Vec<VersionEdit>,
    /// The version of each column family, which keeps its files.
    sources: Vec<(String, std::sync::Arc<SuperVersion>)>,
}

impl Writer {
    /// Makes a checkpoint in `directory`, which must not be there.
    pub(crate) fn checkpoint(&self, directory: &Path) -> Result<()> {
        let _working = self.background.begin_work()?;
        let storage = &*self.storage;
        // Without a slash at the end, which would make the staging directory one inside it.
        let directory: &Path = &directory.components().collect::<PathBuf>();
        let Some(name) = directory.file_name() else {
            let message = "a checkpoint needs a path that ends with a name";
            return Err(Error::invalid_argument(message).in_file(directory));
        };
        if storage.metadata(directory).is_ok() {
            let message = "there is something at the checkpoint's path already";
            return Err(Error::invalid_argument(message).in_file(directory));
        }
        let mut staging = name.to_owned();
        staging.push(".tmp");
        let staging = directory.with_file_name(staging);
        let _lock = self.begin_staging(&staging)?;
        let contents = match self.checkpoint_contents() {
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
                // What stays is whole, under either name, with the mark or without it.
                Err(stays) => {
                    self.info_log.warn(format_args!("a checkpoint that failed stays: {stays}"));
                    Err(error)
                }
            };
        }
        self.info_log.info(format_args!("made a checkpoint in {}", directory.display()));
        Ok(())
    }

    /// The rest of step 4, once `directory` is the checkpoint's name.
    fn end_staging(&self, directory: &Path) -> Result<()> {
        let storage = &*self.storage;
        sync_parent(storage, directory)?;
        let [mark, aside] = marks(directory);
        // Not removed yet: there may be nothing to make it anew with.
        storage.rename(&mark, &aside)?;
        storage.sync_directory(directory)?;
        // What stays is removed by the first opening for writing.
        let _ = storage.remove(&aside);
        Ok(())
    }

    /// Step 4 undone, so that nothing is removed from what a crash would show under the
    /// checkpoint's name.
    fn unname_checkpoint(&self, staging: &Path, directory: &Path) -> Result<()> {
        let storage = &*self.storage;
        let [mark, aside] = marks(directory);
        if storage.metadata(&mark).is_err() {
            storage.rename(&aside, &mark)?;
        }
        storage.sync_directory(directory)?;
        storage.rename(directory, staging)?;
        Ok(sync_parent(storage, staging)?)
    }

    /// Step 1.
    fn checkpoint_contents(&self) -> Result<Contents> {
        let leadership = self.queue.lead()?;
        self.errors.check()?;
        let families = self.shared.family_set();
        let all: Vec<_> = families.iter().collect();
        let awaited = self.seal_for_flush(&leadership, &all)?;
        self.wait_for_flush(&awaited)?;
        // Versions are installed under this lock: what the edits name is what the sources keep.
        let versions = self.versions();
        let edits = versions.snapshot();
        let sources = families
            .iter()
            .map(|family| (family.name().to_owned(), family.super_version()))
            .collect();
        drop(versions);
        Ok(Contents { edits, sources })
    }

    /// Steps 2 and 3.
    fn fill_checkpoint(&self, aside: &Path, contents: &Contents) -> Result<()> {
        let storage = &*self.storage;
        let io_modes = self.readers.io_modes();
        let purpose = Purpose::Checkpoint;
        for warning in io_modes.try_in(storage, aside, &[purpose])? {
            self.info_log.warn(format_args!("{warning}"));
        }
        for (from, name) in self.checkpoint_files(contents) {
            let modes = CopyModes {
                source: io_modes.mode_of_file(purpose, &from),
                target: io_modes.mode(purpose, aside),
            };
            link_or_copy(storage, &from, &aside.join(name), modes)?;
        }
        let options = self.checkpoint_options().to_document().to_text();
        let number = self.numbers.take();
        let name = FileKind::Options(number).to_string();
        write_whole(storage, &aside.join(name), options.as_bytes(), Purpose::Checkpoint)?;
        if let Some(own) = self.database.fixed().tailwater.to_text() {
            let path = aside.join(FileKind::TailwaterOptions.to_string());
            write_whole(storage, &path, own.as_bytes(), Purpose::Checkpoint)?;
        }
        let id = self.identity.database_id.as_bytes();
        let identity = aside.join(FileKind::Identity.to_string());
        write_whole(storage, &identity, id, Purpose::Checkpoint)?;
        let mut edits = contents.edits.clone();
        for edit in &mut edits {
            // All files of a checkpoint are in its own directory.
            edit.new_files.iter_mut().for_each(|file| file.path_id = 0);
        }
        if let Some(number) = edits.iter().filter_map(|edit| edit.log_number).max() {
            // It needs none, but who tracks logs refuses a database without one.
            let log = aside.join(FileKind::Wal(number).to_string());
            write_whole(storage, &log, &[], Purpose::Checkpoint)?;
            edits.iter_mut().for_each(|edit| edit.existing_logs = None);
            edits.extend([VersionEdit {
                existing_logs: Some(vec![number]),
                ..VersionEdit::default()
            }]);
        }
        write_manifest(storage, aside, MANIFEST, &edits)?;
        set_current(storage, aside, MANIFEST, MANIFEST)
    }

    /// Every file that is shared, with its name in the checkpoint.
    fn checkpoint_files(&self, contents: &Contents) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        for (family, source) in &contents.sources {
            let version = source.version();
            for (_, file) in version.files() {
                let name = FileKind::Table(file.number()).to_string();
                files.insert(source.tables().path(file), name);
            }
            let blobs = self.options().blob_directory(&self.directory, family);
            for &number in version.blob_files().keys() {
                let name = FileKind::Blob(number).to_string();
                files.insert(blobs.join(&name), name);
            }
        }
        files
    }

    /// The options of a checkpoint: the database's, without the directories, which stay the
    /// database's.
    fn checkpoint_options(&self) -> Options {
        let mut options = self.all_options();
        options.database.wal_dir.clear();
        options.database.db_paths.clear();
        for (_, family) in &mut options.column_families {
            family.cf_paths.clear();
        }
        options
    }

    /// Makes the directory where a checkpoint is assembled, empty but for its mark, which is
    /// locked. What is left there of one that was not finished is removed.
    ///
    /// # Errors
    /// Invalid argument, where something else has its name; busy, where somebody assembles a
    /// checkpoint there.
    fn begin_staging(&self, staging: &Path) -> Result<Box<dyn FileLock>> {
        let storage = &*self.storage;
        let mark = FileKind::Staging.to_string();
        let is_somebodys = match storage.list(staging) {
            Ok(entries) => !entries.is_empty() && !entries.iter().any(|entry| entry.name == mark),
            Err(error) if error.is_not_found() => false,
            Err(error) => return Err(error.into()),
        };
        if is_somebodys {
            let message = "this is where a checkpoint is assembled, and there is something else; \
                           remove it, or choose another path for the checkpoint";
            return Err(Error::invalid_argument(message).in_file(staging));
        }
        create_directory(storage, staging)?;
        let lock = storage.lock(&staging.join(&mark)).map_err(|error| {
            Error::from(error).while_doing("a checkpoint is being made in the same place")
        })?;
        for entry in storage.list(staging)?.iter().filter(|entry| entry.name != mark) {
            storage.remove(&staging.join(&entry.name))?;
        }
        // A crash must not keep what follows and lose the mark.
        storage.sync_directory(staging)?;
        Ok(lock)
    }

    /// Removes what there is of a checkpoint that cannot be finished, and answers why.
    fn give_up_staging(&self, staging: &Path, error: Error) -> Result<()> {
        if let Err(stays) = self.remove_staging(staging) {
            // The next checkpoint of that name removes it.
            self.info_log.warn(format_args!("a checkpoint that was not finished stays: {stays}"));
        }
        Err(error)
    }

    fn remove_staging(&self, staging: &Path) -> Result<()> {
        let storage = &*self.storage;
        let mark = FileKind::Staging.to_string();
        // The mark goes last: what a crash leaves is still marked.
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

/// The mark of a directory in which a checkpoint is assembled, and what it is called before it
/// goes.
fn marks(directory: &Path) -> [PathBuf; 2] {
    [FileKind::Staging, FileKind::Temporary(0)].map(|kind| directory.join(kind.to_string()))
}
