//! What the workloads ask of an engine.

use std::error::Error;
use std::path::Path;

/// Why an engine could not do what it was asked.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Which way a scan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From small keys to large ones.
    Forward,
    /// From large keys to small ones.
    Backward,
}

/// What a scan has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scanned {
    /// How many entries.
    pub entries: u64,
    /// How long their keys and values are together, in bytes.
    pub bytes: u64,
}

impl Scanned {
    /// One more entry. Its bytes are looked at, so that none of the work can be left out.
    #[inline]
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.entries += 1;
        self.bytes += (key.len() + value.len()) as u64;
        std::hint::black_box((key.first(), value.first()));
    }
}

/// An open database of some engine, with one key space.
///
/// Each engine does what its users would do to be fast: the calls of its own interface that copy
/// and allocate least.
pub trait Store: Sized + Sync {
    /// What it is called in reports, and as an argument.
    const NAME: &'static str;

    /// Makes a database in a directory that is empty. `options` are of RocksDB's kind; an engine
    /// that has others takes those of its own that come closest.
    ///
    /// # Errors
    /// Those of the engine.
    fn create(directory: &Path, options: &str) -> Result<Self, Failure>;

    /// Gives a key a value. It is in the log, and not synced.
    ///
    /// # Errors
    /// Those of the engine.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    /// Gives a key a value, and returns when that is on the device.
    ///
    /// # Errors
    /// Those of the engine; an engine that is not measured with such puts has none.
    fn put_synced(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let _ = (key, value);
        Err(format!("--engines: {} is not measured with synced puts", Self::NAME).into())
    }

    /// Deletes the keys from `begin` to `end`, which is not included. It is in the log, and not
    /// synced.
    ///
    /// # Errors
    /// Those of the engine; an engine that is not measured with range deletions has none.
    fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<(), Failure> {
        let _ = (begin, end);
        Err(format!("--engines: {} is not measured with range deletions", Self::NAME).into())
    }

    /// Puts all of `entries`, one after the other. An engine in which a single write is a
    /// transaction that copies pages may put many in one.
    ///
    /// # Errors
    /// Those of the engine.
    fn put_all<'a, K: AsRef<[u8]>>(
        &self,
        entries: impl Iterator<Item = (K, &'a [u8])>,
    ) -> Result<(), Failure> {
        for (key, value) in entries {
            self.put(key.as_ref(), value)?;
        }
        Ok(())
    }

    /// The length of a key's value, if it has one.
    ///
    /// # Errors
    /// Those of the engine.
    fn get(&self, key: &[u8]) -> Result<Option<usize>, Failure>;

    /// How many of these keys have a value.
    ///
    /// # Errors
    /// Those of the engine.
    fn multi_get(&self, keys: &[&[u8]]) -> Result<usize, Failure> {
        let mut found = 0;
        for key in keys {
            found += usize::from(self.get(key)?.is_some());
        }
        Ok(found)
    }

    /// Walks from `from`, or from the end that comes first in that direction, over at most `limit`
    /// entries.
    ///
    /// # Errors
    /// Those of the engine.
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
    ) -> Result<Scanned, Failure>;

    /// Writes everything anew into the last level, also what is there.
    ///
    /// # Errors
    /// Those of the engine.
    fn compact(&self) -> Result<(), Failure>;

    /// Returns when no work is left in the background.
    ///
    /// # Errors
    /// Those of the engine.
    fn settle(&self) -> Result<(), Failure>;

    /// What the engine tells under a name of RocksDB's, if it knows it.
    ///
    /// # Errors
    /// Those of the engine.
    fn property(&self, name: &str) -> Result<Option<String>, Failure> {
        let _ = name;
        Ok(None)
    }
}
