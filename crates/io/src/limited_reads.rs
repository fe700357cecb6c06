//! Limits the rate at which compactions read, and users who ask for it.

use std::path::Path;
use std::sync::Arc;

use crate::pace::{CountedLimiter, OpType, Priority};
use crate::{IoMode, Purpose, ReadFile, ReadTime, Result, Storage, charged_reads};

/// Wraps a storage so that reads of compactions wait for a rate limiter, with low priority, and
/// reads for users with the priority of [`charge_reads`](crate::charge_reads), if there is one.
/// Other reads do not wait.
#[derive(Debug)]
pub struct LimitedReads {
    files: Arc<dyn Storage>,
    limiter: CountedLimiter,
}

impl LimitedReads {
    /// Creates the wrapper.
    pub fn new(files: Arc<dyn Storage>, limiter: CountedLimiter) -> Self {
        Self { files, limiter }
    }
}

impl Storage for LimitedReads {
    crate::forward_storage!(
        files: create, rename, copy_ownership, remove, remove_directory, create_directory, link,
        list, visit_entries, metadata, identity, canonical_path, capabilities, resident_pages, lock,
        sync_directory, statistics,
    );

    fn open(&self, path: &Path, mode: IoMode, purpose: Purpose) -> Result<Arc<dyn ReadFile>> {
        let file = self.files.open(path, mode, purpose)?;
        Ok(Arc::new(LimitedFile { file, limiter: self.limiter.clone() }))
    }
}

#[derive(Debug)]
struct LimitedFile {
    file: Arc<dyn ReadFile>,
    limiter: CountedLimiter,
}

impl LimitedFile {
    fn wait(&self, bytes: usize, purpose: Purpose) {
        let priority = match purpose {
            Purpose::CompactionRead | Purpose::CompactionBlobRead => Some(Priority::Low),
            Purpose::UserRead | Purpose::UserBlobRead => charged_reads::priority(),
            _ => None,
        };
        if let Some(priority) = priority {
            self.limiter.request(OpType::Read, bytes as u64, priority);
        }
    }
}

impl ReadFile for LimitedFile {
    crate::forward_read_file!(
        file: length, path, mode, alignment, ring_access, next_of_waiting, advise_random,
        resident_pages,
    );

    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        self.wait(buffer.len(), purpose);
        self.file.read_at(buffer, offset, purpose)
    }

    fn read_in_batch_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        self.wait(buffer.len(), purpose);
        self.file.read_in_batch_at(buffer, offset, purpose)
    }

    /// Waits after the read, since its purpose is not known before.
    fn was_read(&self, offset: u64, count: usize, purpose: Purpose, time: ReadTime) {
        self.file.was_read(offset, count, purpose, time);
        self.wait(count, purpose);
    }
}
