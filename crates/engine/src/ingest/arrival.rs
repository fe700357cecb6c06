//! Linking and copying of files into a database's directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_io::pace::Priority;
use tailwater_io::{Create, IoMode, Purpose, ReadFile};

use super::external_file::ExternalFile;
use super::ingester::Ingester;
use super::options::IngestOptions;
use crate::column_family::ColumnFamily;
use crate::error::Result;
use crate::file_copy::copy_into;
use crate::table::{FileMetadata, NewFiles, table_buffers};

/// A file that was linked or copied into the database's directory.
#[derive(Debug)]
pub(super) struct Arrival {
    /// The file number in the name of the linked or copied file.
    pub(super) number: u64,
    pub(super) path: PathBuf,
    /// Whether the file was copied rather than linked.
    pub(super) is_copy: bool,
}

impl Ingester {
    /// Links or copies an external file into the database's directory. Syncs the new file but not
    /// the directory, and opens it as a table to check it. After an error, the new file is removed.
    pub(super) fn bring(
        &self,
        family: &ColumnFamily,
        file: &ExternalFile,
        options: &IngestOptions,
    ) -> Result<Arrival> {
        let path = |number| family.new_table_path(number);
        let (number, path) = self.context.numbers.take_unused(&*self.context.storage, path)?;
        let is_copy = self.link_or_copy(file, &path, options)?;
        // Opening the table checks that the file was not replaced since it was examined.
        let table = FileMetadata::new(file.new_file(number, 0, 0, 0));
        let opened = family.readers().tables.open_uncached(&table, Purpose::Ingestion);
        opened.map(drop).inspect_err(|_| self.remove_arrival(&path))?;
        self.context.files.added(&path, file.size);
        Ok(Arrival { number, path, is_copy })
    }

    /// Removes a file that was linked or copied but not installed.
    pub(super) fn remove_arrival(&self, path: &Path) {
        // Nothing refers to the file; if its removal fails, the next open removes it.
        let _ = self.context.files.remove_at_once(path);
    }

    /// Links or copies a file. Returns whether it is a copy. After an error, the linked or copied
    /// file does not remain at `path`.
    fn link_or_copy(
        &self,
        file: &ExternalFile,
        path: &Path,
        options: &IngestOptions,
    ) -> Result<bool> {
        if options.links() && !self.is_unsynced(&file.path)? {
            match self.context.storage.link(&file.path, path) {
                Ok(()) => {
                    let synced = self.sync_linked(path).inspect_err(|_| self.note_unsynced(path));
                    return synced.map(|()| false).inspect_err(|_| self.remove_arrival(path));
                }
                Err(error) if error.is_no_space() || !options.failed_move_fall_back_to_copy => {
                    return Err(error.into());
                }
                Err(error) => self
                    .context
                    .info_log
                    .info(format_args!("a file is copied, not linked: {error}")),
            }
        }
        self.copy(file, path).map(|()| true)
    }

    /// Syncs a linked file, since its writer may not have synced it.
    fn sync_linked(&self, path: &Path) -> Result<()> {
        let purpose = Purpose::Ingestion;
        let mut file =
            self.context.storage.create(path, Create::Existing, IoMode::Buffered, purpose)?;
        Ok(file.sync_all(purpose)?)
    }

    /// Records that syncing a file failed. The kernel may report success for later syncs although
    /// data is missing on the device, so from now on the file may be copied but not linked.
    fn note_unsynced(&self, path: &Path) {
        if let Ok(identity) = self.context.storage.identity(path) {
            self.unsynced_files.lock().insert(identity);
        }
    }

    fn is_unsynced(&self, path: &Path) -> Result<bool> {
        if self.unsynced_files.lock().is_empty() {
            return Ok(false);
        }
        let identity = self.context.storage.identity(path)?;
        Ok(self.unsynced_files.lock().contains(&identity))
    }

    fn copy(&self, file: &ExternalFile, path: &Path) -> Result<()> {
        let purpose = Purpose::Ingestion;
        let (database, rate_limiter) = (self.context.options.now(), self.context.rate_limiter());
        let writers = self.compactions.writers();
        let files = NewFiles {
            storage: &*self.context.storage,
            database: &database,
            io_modes: &self.context.shared.io_modes,
            buffers: &table_buffers(&database, 1),
            workers: writers.as_ref(),
            rate_limiter: rate_limiter.as_ref(),
        };
        let source = self.open_source(&file.path, path)?;
        let writer = files.create_cold(path, purpose, Priority::Low, file.size)?;
        let check = || self.context.errors.check_waiting();
        let copied = copy_into(source, file.size, writer, purpose, check);
        copied.inspect_err(|_| self.remove_arrival(path))
    }

    /// Opens the source of a copy in the I/O mode of the target. If the source's filesystem, which
    /// was not probed, refuses that mode, opens the source buffered.
    fn open_source(&self, source: &Path, target: &Path) -> Result<Arc<dyn ReadFile>> {
        let purpose = Purpose::Ingestion;
        let mode = self.context.shared.io_modes.mode_of_file(purpose, target);
        match self.context.storage.open(source, mode, purpose) {
            Err(error) if error.is_unsupported() => {
                Ok(self.context.storage.open(source, IoMode::Buffered, purpose)?)
            }
            opened => Ok(opened?),
        }
    }
}
