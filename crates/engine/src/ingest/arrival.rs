//! Bringing files into a database's directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_io::buffer::{ALIGNMENT, BufferPool};
use tailwater_io::pace::Priority;
use tailwater_io::stream::{ReaderOptions, SequentialReader};
use tailwater_io::{Create, IoMode, Purpose};

use super::external_file::ExternalFile;
use super::options::IngestOptions;
use crate::db::{ColumnFamily, Writer};
use crate::table::NewFiles;
use crate::version::FileMetadata;
use crate::{Error, Result};

/// How much is copied at a time, in bytes.
const COPY_BYTES: usize = 1 << 20;
/// How many buffers a copy is written with.
const BUFFERS: usize = 4;

/// A file in the database's directory.
#[derive(Debug)]
pub(super) struct Arrival {
    /// The number in its name.
    pub(super) number: u64,
    pub(super) path: PathBuf,
    /// Whether it was copied rather than linked.
    pub(super) is_copy: bool,
}

impl Writer {
    /// Gives a file its name in the directory, and puts its bytes on the device; the name is not
    /// synced. What is there afterwards is a table, or was removed again.
    pub(super) fn bring(
        &self,
        family: &ColumnFamily,
        file: &ExternalFile,
        options: &IngestOptions,
    ) -> Result<Arrival> {
        let number = self.numbers.take();
        let path = self.table_path(family, number);
        let brought = self.link_or_copy(file, &path, options).and_then(|is_copy| {
            // What arrived must be what was looked at.
            let table = FileMetadata::new(file.new_file(number, 0, 0, 0));
            family.readers().tables.open_uncached(&table, Purpose::Ingestion)?;
            Ok(is_copy)
        });
        match brought {
            Ok(is_copy) => Ok(Arrival { number, path, is_copy }),
            Err(error) => {
                // Nothing refers to it; if this fails too, the next open removes it.
                let _ = self.storage.remove(&path);
                Err(error)
            }
        }
    }

    /// Answers whether it is a copy.
    fn link_or_copy(
        &self,
        file: &ExternalFile,
        path: &Path,
        options: &IngestOptions,
    ) -> Result<bool> {
        if options.links() {
            match self.storage.link(&file.path, path) {
                Ok(()) => return self.sync_linked(path).map(|()| false),
                Err(error) if error.is_no_space() || !options.failed_move_fall_back_to_copy => {
                    return Err(error.into());
                }
                Err(error) => self.info_log.info(format_args!("a file is copied: {error}")),
            }
        }
        self.copy(file, path).map(|()| true)
    }

    /// Whoever made the file may not have put it on the device.
    fn sync_linked(&self, path: &Path) -> Result<()> {
        let purpose = Purpose::Ingestion;
        let mut file = self.storage.create(path, Create::Existing, IoMode::Buffered, purpose)?;
        Ok(file.sync_all(purpose)?)
    }

    fn copy(&self, file: &ExternalFile, path: &Path) -> Result<()> {
        let purpose = Purpose::Ingestion;
        let (database, rate_limiter) = (self.database.now(), self.rate_limiter.load_arc());
        let buffer_bytes = (database.writable_file_max_buffer_size as usize)
            .max(2 * ALIGNMENT)
            .next_multiple_of(ALIGNMENT);
        let files = NewFiles {
            storage: &*self.storage,
            database: &database,
            buffers: &BufferPool::new(BUFFERS * buffer_bytes),
            workers: self.table_writers.as_ref(),
            rate_limiter: rate_limiter.as_ref(),
        };
        let source = self.storage.open(&file.path, IoMode::Buffered, purpose)?;
        let mut writer = files.create_as(Create::New, path, purpose, Priority::Low, file.size)?;
        let options = ReaderOptions { request_bytes: COPY_BYTES, depth: 1, purpose };
        let pool = BufferPool::new(COPY_BYTES);
        let mut reader =
            SequentialReader::new(Arc::clone(&source), 0..file.size, options, &pool, None)?;
        let mut offset = 0;
        while offset < file.size {
            let bytes = reader.read(offset, COPY_BYTES)?;
            if bytes.is_empty() {
                let message = format!("it ended after {offset} bytes while it was copied");
                return Err(Error::corruption(&file.path, message));
            }
            writer.append(bytes)?;
            offset += bytes.len() as u64;
        }
        writer.sync()?;
        writer.close()?;
        Ok(())
    }
}
