//! The interface that an engine must implement to be measured in the experiment.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::slow_reads::SlowReads;
use crate::engine::Engine;
use crate::experiment::timeline::Moment;
use crate::failure::Failure;

/// The name of a supported engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// Tailwater
    Tailwater,
    /// RocksDB
    Rocksdb,
}

impl EngineName {
    /// Returns the engine's name, as used in reports and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tailwater => "tailwater",
            Self::Rocksdb => "rocksdb",
        }
    }
}

/// An engine that can be measured. It opens a database that exists.
pub type TailEngine = Engine<dyn TailDatabase>;

/// An open database, which several threads read and write concurrently. All methods return the
/// errors of the engine.
pub trait TailDatabase: Sync {
    /// Reads a key and stores its value in `value`, replacing the previous content. Returns whether
    /// the key exists.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure>;

    /// Reads several keys, in any order, with the call that the engine has for this. Returns how
    /// many of them exist.
    fn multi_get(&self, keys: &[&[u8]]) -> Result<usize, Failure>;

    /// Writes a key. The write goes to the write-ahead log, which is not synced.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    /// Compacts the whole database into the last level. Returns when the compaction has ended.
    fn compact(&self) -> Result<(), Failure>;

    /// Reads all keys and values in order, once. Stops early when `is_over` returns true.
    fn scan(&self, is_over: &dyn Fn() -> bool) -> Result<(), Failure>;

    /// From now on, attributes the time of each read that takes at least this many microseconds to
    /// causes. Does nothing if the engine cannot.
    fn attribute_slow_reads(&self, _threshold_us: u64) -> Result<(), Failure> {
        Ok(())
    }

    /// Returns what the engine has done since it was opened.
    fn activity(&self) -> Result<Activity, Failure>;

    /// Describes I/O that does not use the configured mode, for example because the filesystem
    /// refuses direct I/O. Returns `None` if all I/O uses the configured mode, or if the engine
    /// does not report the modes that it uses.
    fn fallen_back(&self) -> Result<Option<String>, Failure> {
        Ok(None)
    }
}

/// What an engine has done since it was opened.
#[derive(Debug, Clone, Default)]
pub struct Activity {
    /// Bytes read and written, by the name of the purpose ([`tailwater_io::Purpose`]).
    pub purposes: BTreeMap<String, Moved>,
    /// Total time for which the engine has stalled writers.
    pub stalled: Duration,
    /// Bytes waiting to be compacted, by the engine's own estimate.
    pub pending_compaction_bytes: u64,
    /// Number of compactions that are running.
    pub running_compactions: u64,
    /// Number of flushes that are running.
    pub running_flushes: u64,
    /// Capacity of the block cache, in bytes.
    pub block_cache_bytes: u64,
    /// Number of times that the engine limited its background I/O requests because users' reads
    /// were slow; `None` if the engine does not do this.
    pub held_back: Option<u64>,
    /// Number and latencies of the file reads that the engine made to answer users' reads; `None`
    /// if the engine does not report them.
    pub user_reads: Option<tailwater_io::Latencies>,
    /// Number of data blocks that were looked up in the block cache and were in it.
    pub block_cache_hits: u64,
    /// Number of data blocks that were looked up in the block cache and were not in it.
    pub block_cache_misses: u64,
    /// The slow reads; `None` if they are not attributed to causes.
    pub slow_reads: Option<SlowReads>,
}

/// Bytes moved between files and memory. The numbers are fractional because they may be aggregates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// Number of bytes read from files.
    pub read_bytes: f64,
    /// Number of bytes written to files.
    pub written_bytes: f64,
}

impl Activity {
    /// Returns what the engine did after `earlier`. The compaction backlog, the number of running
    /// compactions and flushes and the size of the block cache are the current ones.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let moved = |(purpose, now): (&String, &Moved)| {
            let before = earlier.purposes.get(purpose).copied().unwrap_or_default();
            let moved = Moved {
                read_bytes: (now.read_bytes - before.read_bytes).max(0.0),
                written_bytes: (now.written_bytes - before.written_bytes).max(0.0),
            };
            (purpose.clone(), moved)
        };
        Self {
            purposes: self.purposes.iter().map(moved).collect(),
            stalled: self.stalled.saturating_sub(earlier.stalled),
            pending_compaction_bytes: self.pending_compaction_bytes,
            running_compactions: self.running_compactions,
            running_flushes: self.running_flushes,
            block_cache_bytes: self.block_cache_bytes,
            held_back: self.held_back.map(|now| now - earlier.held_back.unwrap_or(0)),
            user_reads: self
                .user_reads
                .as_ref()
                .map(|now| now.since(&earlier.user_reads.clone().unwrap_or_default())),
            block_cache_hits: self.block_cache_hits.saturating_sub(earlier.block_cache_hits),
            block_cache_misses: self.block_cache_misses.saturating_sub(earlier.block_cache_misses),
            slow_reads: self
                .slow_reads
                .as_ref()
                .map(|now| now.since(&earlier.slow_reads.clone().unwrap_or_default())),
        }
    }

    /// Returns what the engine did in a period of `seconds`, by name, for a timeline.
    pub(super) fn moment(&self, seconds: f64) -> Moment {
        let flushed = self.purposes.get("flush_write").copied().unwrap_or_default();
        let figures = [
            ("stall_share", self.stalled.as_secs_f64() / seconds),
            ("compaction_mb_per_second", self.compacted_bytes() / seconds / 1e6),
            ("flush_mb_per_second", flushed.written_bytes / seconds / 1e6),
            ("running_compactions", self.running_compactions as f64),
            ("running_flushes", self.running_flushes as f64),
            ("block_cache_bytes", self.block_cache_bytes as f64),
        ];
        figures.map(|(name, figure)| (name.to_owned(), figure)).into()
    }

    /// Returns the number of bytes that compactions have read and written.
    pub(super) fn compacted_bytes(&self) -> f64 {
        let of = |purpose: &str| self.purposes.get(purpose).copied().unwrap_or_default();
        of("compaction_read").read_bytes
            + of("compaction_blob_read").read_bytes
            + of("compaction_write").written_bytes
    }
}
