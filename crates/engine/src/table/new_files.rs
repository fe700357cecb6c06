//! The files to which new tables are written.

use std::path::Path;
use std::sync::Arc;

use tailwater_io::buffer::{BufferPool, MAX_ALIGNMENT};
use tailwater_io::pace::{CountedLimiter, Priority};
use tailwater_io::stream::{SequentialWriter, Workers, WriterOptions};
use tailwater_io::{Create, IoMode, Purpose, Storage};

use crate::error::Result;
use crate::handover::TableHandover;
use crate::incomplete_file::IncompleteFile;
use crate::io_modes::IoModes;
use crate::options::DbOptions;

/// While a table is written, the writeback of its bytes is started each time this many bytes have
/// been written, if no option sets another number. The table is synced at the end anyway, but
/// writing all of it back at that time would delay users' reads.
const EARLY_WRITEBACK: u64 = 1 << 20;

/// Maximum buffer size of a writer, in bytes. Larger buffers would use memory without benefit.
const BUFFER_MAX: u64 = 64 << 20;

/// Buffer size up to which the options apply unchanged, in bytes. A larger buffer is reduced to the
/// expected size of its file, but not below this size.
const BUFFER_USEFUL: usize = 1 << 20;

/// Maximum size of a preallocation, in bytes.
const MAX_PREALLOCATION: u64 = 1 << 20;

/// Number of buffers per table writer. One is being filled and one is being written. The other two
/// are for the writer's previous table, whose last buffers may still be in use when the next table
/// is begun.
const BUFFERS: usize = 4;

/// Returns a pool of buffers for `writers` concurrent table writers.
pub(crate) fn table_buffers(options: &DbOptions, writers: usize) -> BufferPool {
    let bytes = buffer_size(options).max(2 * MAX_ALIGNMENT).next_multiple_of(MAX_ALIGNMENT);
    BufferPool::new(writers.max(1).saturating_mul(BUFFERS * bytes))
}

/// Returns the size of a writer's buffer, in bytes.
fn buffer_size(options: &DbOptions) -> usize {
    options.writable_file_max_buffer_size.min(BUFFER_MAX) as usize
}

/// Shared state of the writers of new tables, in flushes and compactions.
pub(crate) struct NewFiles<'a> {
    pub(crate) storage: &'a dyn Storage,
    pub(crate) database: &'a DbOptions,
    pub(crate) io_modes: &'a IoModes,
    pub(crate) buffers: &'a BufferPool,
    /// Threads that write full buffers in the background, if any.
    pub(crate) workers: Option<&'a Arc<Workers>>,
    pub(crate) rate_limiter: Option<&'a CountedLimiter>,
}

impl NewFiles<'_> {
    /// Creates the file of a table with an expected size of `expected_bytes`. If its warm blocks
    /// may be written through the page cache, but the file cannot be opened for buffered writes,
    /// they are not kept warm; that is not an error.
    ///
    /// # Errors
    /// Storage errors, also if the file exists; or an error if no buffer is left. On an error no
    /// created file remains.
    pub(crate) fn create(
        &self,
        path: &Path,
        purpose: Purpose,
        priority: Priority,
        expected_bytes: u64,
        handover: Option<&TableHandover>,
    ) -> Result<SequentialWriter> {
        let mut writer = self.create_cold(path, purpose, priority, expected_bytes)?;
        if handover.is_some_and(TableHandover::pages)
            && let Ok(file) = self.storage.create(path, Create::Existing, IoMode::Buffered, purpose)
        {
            writer.warm_through(file);
        }
        Ok(writer)
    }

    /// Like [`NewFiles::create`], but keeps no block warm.
    pub(crate) fn create_cold(
        &self,
        path: &Path,
        purpose: Purpose,
        priority: Priority,
        expected_bytes: u64,
    ) -> Result<SequentialWriter> {
        let file = self.storage.create(
            path,
            Create::New,
            self.io_modes.mode_of_file(purpose, path),
            purpose,
        )?;
        let preallocate_bytes =
            if self.database.allow_fallocate { expected_bytes.min(MAX_PREALLOCATION) } else { 0 };
        let options = WriterOptions {
            buffer_bytes: self.buffer_bytes(file.mode(), expected_bytes),
            bytes_per_sync: match self.database.bytes_per_sync {
                0 => EARLY_WRITEBACK,
                set => set,
            },
            preallocate_bytes,
            depth: 1,
            ..WriterOptions::new(purpose)
        };
        let incomplete = IncompleteFile::created(self.storage, path);
        let mut writer = SequentialWriter::new(file, options, self.buffers, self.workers)?;
        incomplete.complete();
        // Only compactions yield to foreground reads. Flushes do not, since writers wait for them.
        if purpose == Purpose::CompactionWrite {
            writer.give_way_to(Arc::clone(self.storage.statistics().foreground()));
        }
        if let Some(rate_limiter) = self.rate_limiter {
            writer.keep_to(rate_limiter.clone(), priority);
        }
        Ok(writer)
    }

    /// Returns the size of each write to a file of `expected_bytes`, in bytes.
    fn buffer_bytes(&self, mode: IoMode, expected_bytes: u64) -> usize {
        let useful = usize::try_from(expected_bytes).unwrap_or(usize::MAX).max(BUFFER_USEFUL);
        let buffer_bytes = buffer_size(self.database).min(useful);
        match mode {
            IoMode::Direct => buffer_bytes.min(self.database.direct_request_size()),
            _ => buffer_bytes,
        }
    }
}
