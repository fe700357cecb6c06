//! Counters of the memory that all databases of the process use, by consumer. Each counts memory
//! from its allocation until it is freed, whichever database, iterator or thread still holds it.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Change of a [`Counted`] value, in bytes, below which [`Counted::follow`] does nothing.
const STEP: usize = 64 << 10;

/// A consumer of memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Consumer {
    /// Memtables, including those that were flushed and are still read or not yet freed.
    MemTables,
    /// Open tables, with the indexes and filters that they keep outside a block cache, and what is
    /// known of each table of a version.
    Tables,
    /// The indexes and filters of tables that are being written.
    NewTables,
}

/// A counter with cache lines of its own.
#[repr(align(128))]
struct Counter(AtomicUsize);

static COUNTERS: [Counter; 3] = [const { Counter(AtomicUsize::new(0)) }; 3];

impl Consumer {
    fn counter(self) -> &'static AtomicUsize {
        &COUNTERS[self as usize].0
    }

    /// Returns the memory that is used now, in bytes.
    pub(crate) fn bytes(self) -> usize {
        self.counter().load(Relaxed)
    }

    /// Counts `bytes` more.
    pub(crate) fn add(self, bytes: usize) {
        self.counter().fetch_add(bytes, Relaxed);
    }

    /// Counts `bytes` less.
    pub(crate) fn subtract(self, bytes: usize) {
        self.counter().fetch_sub(bytes, Relaxed);
    }
}

/// Memory that is counted until this value is dropped, which must happen after the memory was
/// freed, or together with it.
#[derive(Debug)]
pub(crate) struct Counted {
    consumer: Consumer,
    bytes: usize,
}

impl Counted {
    pub(crate) fn new(consumer: Consumer, bytes: usize) -> Self {
        consumer.add(bytes);
        Self { consumer, bytes }
    }

    /// Returns the counted memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Notes that the memory is `bytes` now. Small changes are noted together with later ones.
    #[inline]
    pub(crate) fn follow(&mut self, bytes: usize) {
        if bytes.abs_diff(self.bytes) >= STEP {
            self.consumer.add(bytes);
            self.consumer.subtract(self.bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.consumer.subtract(self.bytes);
    }
}
