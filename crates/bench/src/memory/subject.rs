//! The interface to an engine whose databases share their memory limits.

use std::path::PathBuf;

use crate::store::Failure;

/// The limits that all databases of the process share.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Limit of the write buffer manager, which stalls writes, in bytes.
    pub memtables_bytes: usize,
    /// Strict capacity of the block cache, in bytes.
    pub cache_bytes: usize,
    /// Whether the memory of the memtables is charged to the cache.
    pub charges_memtables: bool,
}

impl Limits {
    /// Returns the configured sum, in bytes.
    pub(crate) fn sum(&self) -> usize {
        self.cache_bytes + if self.charges_memtables { 0 } else { self.memtables_bytes }
    }
}

/// The databases of an engine, or the reason why they were not opened.
pub type Opened = Result<Box<dyn MemorySubject>, Failure>;

/// An engine that can be measured.
#[derive(Debug, Clone, Copy)]
pub struct MemoryEngine {
    /// The engine's name in reports and as an argument.
    pub name: &'static str,
    /// Creates a database in each of the directories. The last two arguments are RocksDB's option
    /// string of the databases, and that of their tables.
    pub open: fn(&[PathBuf], &Limits, &str, &str) -> Opened,
}

/// An error of one operation. The load goes on after it.
#[derive(Debug)]
pub struct Refusal {
    /// The kind of the error, as the engine classifies it.
    pub kind: String,
    /// The message of the error.
    pub message: String,
}

/// The open databases. `database` is the index of one of them.
pub trait MemorySubject: Sync {
    /// Sets a key's value, which is logged but not synced.
    ///
    /// # Errors
    /// Those of the engine.
    fn put(&self, database: usize, key: &[u8], value: &[u8]) -> Result<(), Refusal>;

    /// Returns whether a key has a value.
    ///
    /// # Errors
    /// Those of the engine.
    fn get(&self, database: usize, key: &[u8]) -> Result<bool, Refusal>;

    /// Iterates over at most `limit` entries, from the key `from` on. Returns their number.
    ///
    /// # Errors
    /// Those of the engine.
    fn scan(&self, database: usize, from: &[u8], limit: u64) -> Result<u64, Refusal>;

    /// Returns what the engine says about its memory: parts that do not overlap, each with its
    /// name, in bytes.
    ///
    /// # Errors
    /// Those of the engine.
    fn live(&self) -> Result<Vec<(String, u64)>, Failure>;
}
