//! Memory that iterators use outside the block cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts a database's open iterators and the memory that they use outside the block cache. Any
/// thread may change the counts.
#[derive(Debug, Default)]
pub(crate) struct ReaderMemory {
    iterators: AtomicU64,
    read_ahead_bytes: AtomicU64,
}

impl ReaderMemory {
    /// Returns the number of open iterators.
    pub(crate) fn iterators(&self) -> u64 {
        self.iterators.load(Relaxed)
    }

    /// Returns the total size of the readahead buffers of all iterators, in bytes.
    pub(crate) fn read_ahead_bytes(&self) -> u64 {
        self.read_ahead_bytes.load(Relaxed)
    }
}

/// Counts one iterator as open, until this value is dropped.
#[derive(Debug)]
pub(crate) struct IteratorCharge(Arc<ReaderMemory>);

impl IteratorCharge {
    /// Counts one more open iterator in `memory`, until the returned value is dropped.
    pub(crate) fn new(memory: &Arc<ReaderMemory>) -> Self {
        memory.iterators.fetch_add(1, Relaxed);
        Self(Arc::clone(memory))
    }
}

impl Drop for IteratorCharge {
    fn drop(&mut self) {
        self.0.iterators.fetch_sub(1, Relaxed);
    }
}

/// Counts the bytes of one iterator's readahead buffer, until this value is dropped.
#[derive(Debug)]
pub(crate) struct ReadAheadCharge {
    memory: Arc<ReaderMemory>,
    bytes: u64,
}

impl ReadAheadCharge {
    /// Creates the charge of a readahead buffer that is still empty.
    pub(crate) fn new(memory: &Arc<ReaderMemory>) -> Self {
        Self { memory: Arc::clone(memory), bytes: 0 }
    }

    /// Records that the counted readahead buffer now has `bytes` bytes.
    pub(crate) fn set(&mut self, bytes: u64) {
        self.memory.read_ahead_bytes.fetch_add(bytes, Relaxed);
        self.memory.read_ahead_bytes.fetch_sub(self.bytes, Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for ReadAheadCharge {
    fn drop(&mut self) {
        self.set(0);
    }
}
