//! A storage that records which reads are in flight together.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tailwater_io::sim::SimStorage;
use tailwater_io::{IoMode, Purpose, ReadFile, Result, Storage};

/// A simulated disk that records the reads that one thread has in flight together.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    pub(crate) disk: SimStorage,
    waiting: Arc<Mutex<Vec<Waiting>>>,
    /// Number of reads until one panics, that one included; 0 for none.
    reads_left: Arc<AtomicUsize>,
}

/// A request that a thread made while it had several.
#[derive(Debug)]
struct Waiting {
    /// Number of these requests, with this one.
    count: usize,
    of_blob_file: bool,
}

#[derive(Debug)]
struct RecordedFile {
    file: Arc<dyn ReadFile>,
    waiting: Arc<Mutex<Vec<Waiting>>>,
    reads_left: Arc<AtomicUsize>,
}

impl Recorder {
    pub(crate) fn new(disk: SimStorage) -> Self {
        Self { disk, waiting: Arc::default(), reads_left: Arc::default() }
    }

    /// Makes one read panic, after `count` others.
    pub(crate) fn panic_after(&self, count: usize) {
        self.reads_left.store(count + 1, Ordering::Relaxed);
    }

    /// Calls `work`. Returns the sizes of the batches of reads that were in flight together
    /// meanwhile, and the number of all reads.
    pub(crate) fn record(&self, purpose: Purpose, work: impl FnOnce()) -> (Vec<usize>, u64) {
        let reads = || self.disk.statistics().snapshot(purpose).reads.count;
        let waiting = || self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let before = reads();
        waiting().clear();
        work();
        let mut batches = Vec::new();
        let mut last = 1;
        let of_blob_file = purpose == Purpose::UserBlobRead;
        for request in waiting().iter().filter(|it| it.of_blob_file == of_blob_file) {
            if last == 1 {
                batches.push(request.count);
            }
            last = request.count;
        }
        (batches, reads() - before)
    }
}

impl Storage for Recorder {
    tailwater_io::forward_storage!(
        disk: create, rename, remove, remove_directory, link, list, create_directory, metadata,
        identity, canonical_path, capabilities, resident_pages, sync_directory, lock, statistics,
    );

    fn open(&self, path: &Path, mode: IoMode, purpose: Purpose) -> Result<Arc<dyn ReadFile>> {
        let file = self.disk.open(path, mode, purpose)?;
        let (waiting, reads_left) = (Arc::clone(&self.waiting), Arc::clone(&self.reads_left));
        Ok(Arc::new(RecordedFile { file, waiting, reads_left }))
    }
}

impl ReadFile for RecordedFile {
    tailwater_io::forward_read_file!(file: length, path, mode, alignment);

    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        let left = self.reads_left.load(Ordering::Relaxed);
        self.reads_left.store(left.saturating_sub(1), Ordering::Relaxed);
        assert_ne!(left, 1, "a read that the test makes panic");
        self.file.read_at(buffer, offset, purpose)
    }

    fn next_of_waiting(&self, count: usize) -> usize {
        let of_blob_file = self.path().extension().is_some_and(|it| it == "blob");
        let waiting = Waiting { count, of_blob_file };
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(waiting);
        self.file.next_of_waiting(count)
    }
}
