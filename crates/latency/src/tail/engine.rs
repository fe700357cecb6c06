//! The interface of engines in the experiment.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The name of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// Tailwater
    Tailwater,
    /// RocksDB
    Rocksdb,
}

impl EngineName {
    /// Returns the engine's name in reports and as an argument.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tailwater => "tailwater",
            Self::Rocksdb => "rocksdb",
        }
    }
}

/// An engine for the experiment.
pub trait TailEngine: Sync {
    /// Returns the engine's name.
    fn name(&self) -> EngineName;

    /// Opens the database in a directory, with an option string in RocksDB's format.
    ///
    /// # Errors
    /// Errors from the engine.
    fn open(&self, directory: &Path, options: &str) -> Result<Box<dyn TailDatabase>, Failure>;
}

/// An open database that is read and written by several threads.
pub trait TailDatabase: Sync {
    /// Replaces `value` by the value of `key`; returns whether there is one.
    ///
    /// # Errors
    /// Errors from the engine.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure>;

    /// Sets a key's value, which is logged but not synced.
    ///
    /// # Errors
    /// Errors from the engine.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    /// Compacts the whole database into the last level, and returns when that is done.
    ///
    /// # Errors
    /// Errors from the engine.
    fn compact(&self) -> Result<(), Failure>;

    /// Reads all keys and values in order, once or until `is_over`.
    ///
    /// # Errors
    /// Errors from the engine.
    fn scan(&self, is_over: &dyn Fn() -> bool) -> Result<(), Failure>;

    /// Returns the engine's activity since it was opened.
    ///
    /// # Errors
    /// Errors from the engine.
    fn activity(&self) -> Result<Activity, Failure>;

    /// Returns a description of the purposes whose I/O mode is not the configured one; `None` if
    /// there are none, or the engine does not report modes.
    ///
    /// # Errors
    /// Errors from the engine.
    fn fallen_back(&self) -> Result<Option<String>, Failure> {
        Ok(None)
    }
}

/// The work of an engine since it was opened.
#[derive(Debug, Clone, Default)]
pub struct Activity {
    /// Bytes moved, by purpose: names of [`tailwater_io::Purpose`].
    pub purposes: BTreeMap<String, Moved>,
    /// Total time that writers were stalled.
    pub stalled: Duration,
    /// Compaction backlog in bytes, by the engine's own estimate.
    pub pending_compaction_bytes: u64,
    /// Number of times that the engine allowed fewer background I/O requests at a time because
    /// users' reads were slow; `None` if the engine never does this.
    pub held_back: Option<u64>,
    /// Latencies of the read calls on files that were made for users' reads; `None` if the engine
    /// does not report them.
    pub user_reads: Option<tailwater_io::Latencies>,
}

/// Bytes moved between files and memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Number of bytes read from files.
    pub read_bytes: u64,
    /// Number of bytes written to files.
    pub written_bytes: u64,
}

impl Activity {
    /// Returns the activity since `earlier`, with the current compaction backlog.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let moved = |(purpose, now): (&String, &Moved)| {
            let before = earlier.purposes.get(purpose).copied().unwrap_or_default();
            let moved = Moved {
                read_bytes: now.read_bytes.saturating_sub(before.read_bytes),
                written_bytes: now.written_bytes.saturating_sub(before.written_bytes),
            };
            (purpose.clone(), moved)
        };
        Self {
            purposes: self.purposes.iter().map(moved).collect(),
            stalled: self.stalled.saturating_sub(earlier.stalled),
            pending_compaction_bytes: self.pending_compaction_bytes,
            held_back: self.held_back.map(|now| now - earlier.held_back.unwrap_or(0)),
            user_reads: self
                .user_reads
                .as_ref()
                .map(|now| now.since(&earlier.user_reads.clone().unwrap_or_default())),
        }
    }

    /// Returns the bytes that compactions read and wrote.
    pub(super) fn compacted_bytes(&self) -> u64 {
        let of = |purpose: &str| self.purposes.get(purpose).copied().unwrap_or_default();
        of("compaction_read").read_bytes
            + of("compaction_blob_read").read_bytes
            + of("compaction_write").written_bytes
    }
}
