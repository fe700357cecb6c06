//! The interface through which workloads use an engine.

use std::path::Path;

pub use tailwater_latency::Failure;

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

/// An open database of some engine, with one key space.
///
/// Implementations use the fastest calls of an engine's interface, that is, those that copy and
/// allocate the least.
pub trait Store: Sized + Sync {
    /// The store's name in reports and as an argument.
    const NAME: &'static str;

    /// Creates a database in an empty directory. `options` are RocksDB's; an engine with different
    /// options uses the closest ones.
    ///
    /// # Errors
    /// Errors from the engine.
    fn create(directory: &Path, options: &str) -> Result<Self, Failure>;

    /// Sets a key's value, which is logged but not synced.
    ///
    /// # Errors
    /// Errors from the engine.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    /// Sets a key's value, and returns when it is durable.
    ///
    /// # Errors
    /// Errors from the engine; an error for engines that do not support this measurement.
    fn put_synced(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let _ = (key, value);
        Err(format!("--engines: synced puts are not supported for {}", Self::NAME).into())
    }

    /// Deletes the keys from `begin` to `end`, exclusive. The deletion is logged but not synced.
    ///
    /// # Errors
    /// Errors from the engine; an error for engines that do not support this measurement.
    fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<(), Failure> {
        let _ = (begin, end);
        Err(format!("--engines: range deletions are not supported for {}", Self::NAME).into())
    }

    /// Puts all of `entries` in order. An engine whose single writes are transactions that copy
    /// pages may put many entries in one transaction.
    ///
    /// # Errors
    /// Errors from the engine.
    fn put_all<'a, K: AsRef<[u8]>>(
        &self,
        entries: impl Iterator<Item = (K, &'a [u8])>,
    ) -> Result<(), Failure> {
        for (key, value) in entries {
            self.put(key.as_ref(), value)?;
        }
        Ok(())
    }

    /// Returns the length of a key's value, if it has one.
    ///
    /// # Errors
    /// Errors from the engine.
    fn get(&self, key: &[u8]) -> Result<Option<usize>, Failure>;

    /// Returns how many of the given keys have a value.
    ///
    /// # Errors
    /// Errors from the engine.
    fn multi_get(&self, keys: &[&[u8]]) -> Result<usize, Failure> {
        let mut found = 0;
        for key in keys {
            found += usize::from(self.get(key)?.is_some());
        }
        Ok(found)
    }

    /// Iterates over at most `limit` entries in a direction. The scan starts at the key `from`.
    /// Without `from`, it starts at the first key (forward) or the last key (backward).
    ///
    /// # Errors
    /// Errors from the engine.
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
    ) -> Result<Scanned, Failure>;

    /// Rewrites all data into the last level, including data that is already in the last level.
    ///
    /// # Errors
    /// Errors from the engine.
    fn compact(&self) -> Result<(), Failure>;

    /// Waits until no background work is left.
    ///
    /// # Errors
    /// Errors from the engine.
    fn settle(&self) -> Result<(), Failure>;

    /// Returns the value of a property, given RocksDB's name for it; `None` if the engine does not
    /// know the name.
    ///
    /// # Errors
    /// Errors from the engine.
    fn property(&self, name: &str) -> Result<Option<String>, Failure> {
        let _ = name;
        Ok(None)
    }
}
