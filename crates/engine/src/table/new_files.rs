//! The files that new tables are written to.

use std::path::Path;
use std::sync::Arc;

use tailwater_io::buffer::{BufferPool, MAX_ALIGNMENT};
use tailwater_io::pace::{Priority, RateLimiter};
use tailwater_io::stream::{SequentialWriter, Workers, WriterOptions};
use tailwater_io::{Create, IoMode, Purpose, Storage};

use crate::Result;
use crate::io_modes::IoModes;
use crate::options::DbOptions;

/// How many bytes of a table are written before the device is asked to take them, where no option
/// says. Its sync follows anyway; a whole table at once would have users' reads wait behind it.
const EARLY_WRITEBACK: u64 = 1 << 20;

/// The largest buffer of a writer, in bytes: more at once brings nothing, and takes memory.
const BUFFER_MAX: u64 = 64 << 20;

/// A buffer of up to this many bytes is as large as the options say, and a larger one no larger
/// than its file.
const BUFFER_USEFUL: usize = 1 << 20;

/// No more than this is reserved of a file at a time, in bytes.
const MAX_PREALLOCATION: u64 = 1 << 20;

/// How many buffers a writer of a table has: one that is filled and one on its way, and room for
/// those that the table before gives back a moment late.
const BUFFERS: usize = 4;

/// The buffers of so many writers of tables at a time, however large their disks ask them to be.
pub(crate) fn table_buffers(options: &DbOptions, writers: usize) -> BufferPool {
    let bytes = buffer_size(options).max(2 * MAX_ALIGNMENT).next_multiple_of(MAX_ALIGNMENT);
    BufferPool::new(writers.max(1).saturating_mul(BUFFERS * bytes))
}

/// How many bytes of a table are collected for one write.
fn buffer_size(options: &DbOptions) -> usize {
    options.writable_file_max_buffer_size.min(BUFFER_MAX) as usize
}

/// What the writers of new tables have in common, flushes and compactions alike.
pub(crate) struct NewFiles<'a> {
    pub(crate) storage: &'a dyn Storage,
    pub(crate) database: &'a DbOptions,
    pub(crate) io_modes: &'a IoModes,
    pub(crate) buffers: &'a BufferPool,
    /// Write full buffers behind the back of who fills them, if there are any.
    pub(crate) workers: Option<&'a Arc<Workers>>,
    pub(crate) rate_limiter: Option<&'a Arc<RateLimiter>>,
}

impl NewFiles<'_> {
    /// Creates the file of a table that is to have about `expected_bytes`.
    ///
    /// # Errors
    /// Those of the storage, and of having no buffer left. Nothing was created then.
    pub(crate) fn create(
        &self,
        path: &Path,
        purpose: Purpose,
        priority: Priority,
        expected_bytes: u64,
    ) -> Result<SequentialWriter> {
        self.create_as(Create::New, path, purpose, priority, expected_bytes)
    }

    /// As [`NewFiles::create`], where there may be a file already.
    pub(crate) fn create_as(
        &self,
        create: Create,
        path: &Path,
        purpose: Purpose,
        priority: Priority,
        expected_bytes: u64,
    ) -> Result<SequentialWriter> {
        let file = self.storage.create(path, create, self.mode(purpose, path), purpose)?;
        let preallocate_bytes = match self.database.allow_fallocate {
            true => expected_bytes.min(MAX_PREALLOCATION),
            false => 0,
        };
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
        let writer = SequentialWriter::new(file, options, self.buffers, self.workers);
        let mut writer = writer.inspect_err(|_| {
            // What stays is as empty as it was made.
            let _ = self.storage.remove(path);
        })?;
        // A flush is waited for by writers, so it does not give way.
        if purpose == Purpose::CompactionWrite {
            writer.give_way_to(Arc::clone(self.storage.statistics().foreground()));
        }
        if let Some(rate_limiter) = self.rate_limiter {
            writer.keep_to(Arc::clone(rate_limiter), priority);
        }
        Ok(writer)
    }

    /// Lets what is warm of a table that is being written stay in the page cache. Where that cannot
    /// be, nothing does, which is no error.
    pub(crate) fn warm_through_page_cache(
        &self,
        writer: &mut SequentialWriter,
        path: &Path,
        purpose: Purpose,
    ) {
        if let Ok(file) = self.storage.create(path, Create::Existing, IoMode::Buffered, purpose) {
            writer.warm_through(file);
        }
    }

    /// How much of a file of `expected_bytes` is written at once.
    fn buffer_bytes(&self, mode: IoMode, expected_bytes: u64) -> usize {
        let useful = usize::try_from(expected_bytes).unwrap_or(usize::MAX).max(BUFFER_USEFUL);
        let buffer_bytes = buffer_size(self.database).min(useful);
        match mode {
            IoMode::Direct => buffer_bytes.min(self.database.direct_request_size()),
            IoMode::Buffered | IoMode::Uncached | IoMode::DropBehind => buffer_bytes,
        }
    }

    fn mode(&self, purpose: Purpose, path: &Path) -> IoMode {
        let directory = path.parent().unwrap_or(path);
        self.io_modes.mode(purpose, directory)
    }
}
