//! Memory that is charged to nothing else: what readers hold outside the block cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the readers of a database hold outside the block cache now. Any thread may change it.
#[derive(Debug, Default)]
pub(crate) struct ReaderMemory {
    iterators: AtomicU64,
    read_ahead_bytes: AtomicU64,
}

impl ReaderMemory {
    /// How many iterators there are.
    pub(crate) fn iterators(&self) -> u64 {
        self.iterators.load(Relaxed)
    }

    /// The buffers in which iterators read ahead, in bytes.
    pub(crate) fn read_ahead_bytes(&self) -> u64 {
        self.read_ahead_bytes.load(Relaxed)
    }
}

/// An iterator, counted while it lives.
#[derive(Debug)]
pub(crate) struct IteratorCharge(Arc<ReaderMemory>);

impl IteratorCharge {
    /// Counts one more.
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

/// The buffer of an iterator that reads ahead, charged while it lives.
#[derive(Debug)]
pub(crate) struct ReadAheadCharge {
    memory: Arc<ReaderMemory>,
    bytes: u64,
}

impl ReadAheadCharge {
    /// A buffer of no bytes.
    pub(crate) fn new(memory: &Arc<ReaderMemory>) -> Self {
        Self { memory: Arc::clone(memory), bytes: 0 }
    }

    /// Says how large the buffer is now.
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
