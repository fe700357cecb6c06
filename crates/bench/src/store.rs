//! The interface through which workloads use an engine.

use std::path::Path;

use tailwater_latency::engine;
use tailwater_latency::entries::KEY_BYTES;

pub use tailwater_latency::Failure;

/// A key and its value.
pub type Entry<'a> = ([u8; KEY_BYTES], &'a [u8]);

/// The direction of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From small keys to large keys.
    Forward,
    /// From large keys to small keys.
    Backward,
}

/// The results of a scan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Number of entries that the scan visited.
    pub entries: u64,
    /// Total length of the entries' keys and values, in bytes.
    pub bytes: u64,
}

impl Scanned {
    /// Adds an entry to the totals. Reads the entry's bytes, so that the scan cannot be optimised
    /// away.
    #[inline]
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.entries += 1;
        self.bytes += (key.len() + value.len()) as u64;
        std::hint::black_box((key.first(), value.first()));
    }
}

/// An engine. It creates a database in an empty directory.
pub type Engine = engine::Engine<dyn Store>;

/// An open database of some engine, with one key space.
///
/// Implementations use the fastest calls of an engine's interface, that is, those that copy and
/// allocate the least. All methods return the errors of the engine. Methods that an engine does not
/// implement return an error that says so.
pub trait Store: Sync {
    /// Returns the engine's name.
    fn name(&self) -> &'static str;

    /// Sets a key's value, which is logged but not synced.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    /// Sets a key's value, and returns when it is durable.
    fn put_synced(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let _ = (key, value);
        Err(format!("--engines: synced puts are not supported for {}", self.name()).into())
    }

    /// Deletes the keys from `begin` to `end`, exclusive. The deletion is logged but not synced.
    fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<(), Failure> {
        let _ = (begin, end);
        Err(format!("--engines: range deletions are not supported for {}", self.name()).into())
    }

    /// Adds a copy of a table file with RocksDB's format, into the lowest level that it fits into.
    fn ingest(&self, table: &Path) -> Result<(), Failure> {
        let _ = table;
        Err(format!("--engines: ingestion is not supported for {}", self.name()).into())
    }

    /// Puts all of `entries` in order. An engine whose single writes are transactions that copy
    /// pages may put many entries in one transaction.
    fn put_all(&self, entries: &mut dyn Iterator<Item = Entry<'_>>) -> Result<(), Failure> {
        for (key, value) in entries {
            self.put(&key, value)?;
        }
        Ok(())
    }

    /// Returns the length of a key's value, if it has one.
    fn get(&self, key: &[u8]) -> Result<Option<usize>, Failure>;

    /// Returns how many of the given keys have a value.
    fn multi_get(&self, keys: &[&[u8]]) -> Result<usize, Failure> {
        let mut found = 0;
        for key in keys {
            found += usize::from(self.get(key)?.is_some());
        }
        Ok(found)
    }

    /// Iterates over at most `limit` entries in a direction. The scan starts at the key `from`.
    /// Without `from`, it starts at the first key (forward) or the last key (backward).
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
    ) -> Result<Scanned, Failure>;

    /// Rewrites all data into the last level, including data that is already in the last level.
    fn compact(&self) -> Result<(), Failure>;

    /// Waits until no background work is left.
    fn settle(&self) -> Result<(), Failure>;

    /// Returns the value of a property, given RocksDB's name for it; `None` if the engine does not
    /// know the name.
    fn property(&self, name: &str) -> Result<Option<String>, Failure> {
        let _ = name;
        Ok(None)
    }
}
