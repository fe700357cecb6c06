//! Checkpoints: a second database that shares the first one's tables.
//!
//! # Order
//!
//! 1. Nobody writes while everything in memory is flushed; so tables alone hold all there is, and
//!    the checkpoint needs no log.
//! 2. In a directory aside, tables and blob files are linked, or copied where links cannot be.
//! 3. MANIFEST, both files of options, IDENTITY and CURRENT are written there and synced.
//! 4. The directory gets its name.
//!
//! A crash before step 4 leaves a directory whose name ends in `.tmp`, which the next checkpoint of
//! that name replaces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tailwater_format::file_name::FileKind;
use tailwater_format::version_edit::VersionEdit;
use tailwater_io::Purpose;

use crate::db::{SuperVersion, Writer};
use crate::file_copy::{CopyModes, link_or_copy};
use crate::recovery::{create_directory, sync_parent};
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
        if storage.metadata(directory).is_ok() {
            let message = "there is something at the checkpoint's path already";
            return Err(Error::invalid_argument(message).in_file(directory));
        }
        let mut aside = directory.as_os_str().to_owned();
        aside.push(".tmp");
        let aside = PathBuf::from(aside);
        self.remove_flat_directory(&aside)?;
        let contents = self.checkpoint_contents()?;
        create_directory(storage, &aside)?;
        let filled = self.fill_checkpoint(&aside, &contents);
        if let Err(error) = filled {
            // What cannot be removed is removed by the next one.
            let _ = self.remove_flat_directory(&aside);
            return Err(error);
        }
        storage.rename(&aside, directory)?;
        sync_parent(storage, directory)?;
        self.info_log.info(format_args!("made a checkpoint in {}", directory.display()));
        Ok(())
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
        let options = self.options_text();
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

    /// Removes a directory and the files in it, if it is there.
    fn remove_flat_directory(&self, directory: &Path) -> Result<()> {
        let entries = match self.storage.list(directory) {
            Ok(entries) => entries,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for entry in entries {
            self.storage.remove(&directory.join(entry.name))?;
        }
        self.storage.remove_directory(directory)?;
        Ok(())
    }
}
