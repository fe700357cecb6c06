//! What a run is said to have come to; `docs/tail.md` has every field.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tailwater_io::kernel;

use super::engine::Moved;
use super::latency::Latencies;

/// The figures of a run, or of several, folded.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) reads_per_second: f64,
    /// Megabytes of 1,000,000 bytes, keys and values.
    pub(super) write_mb_per_second: f64,
    #[serde(flatten)]
    pub(super) latencies: Latencies,
    pub(super) reads: f64,
    /// How long it went on.
    pub(super) seconds: f64,
    /// The share of the time in which the engine held the writer back.
    pub(super) stall_share: f64,
    /// The share of their time in which readers could run and had no processor.
    pub(super) run_queue_share: Option<f64>,
    /// The same for each read.
    pub(super) run_queue_us_per_read: Option<f64>,
    /// What went another way than the configuration asks, in the engine's words.
    #[serde(default)]
    pub(super) fallen_back: Option<String>,
    /// Pages of the databases that were in memory when it began, if the kernel tells.
    #[serde(default)]
    pub(super) resident_before_pages: Option<f64>,
    /// What reads were like right before one compaction that merges all, and right after it.
    #[serde(default)]
    pub(super) before_compaction: Option<Phase>,
    #[serde(default)]
    pub(super) after_compaction: Option<Phase>,
    pub(super) kernel: Kernel,
}

/// Some seconds of reads alone.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Phase {
    pub(super) reads_per_second: f64,
    #[serde(flatten)]
    pub(super) latencies: Latencies,
    /// What they fetched from the device, page cache or not, if it can be told.
    pub(super) fetched_pages_per_second: Option<f64>,
}

impl Phase {
    /// That of figures in which nothing but users read, and fetched so much.
    pub(super) fn of(figures: &Figures, fetched_pages_per_second: Option<f64>) -> Self {
        Self {
            reads_per_second: figures.reads_per_second,
            latencies: figures.latencies,
            fetched_pages_per_second,
        }
    }
}

/// What the kernel and the engine say of the work behind the reads. What this system does not tell
/// is `null`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Kernel {
    /// What compactions read and wrote.
    pub(super) compaction_mb_per_second: Option<f64>,
    /// What waited to be compacted when the run ended, by the engine's estimate.
    pub(super) compaction_backlog_bytes: Option<f64>,
    /// How often streams of the engine's were left fewer requests than they asked for, because
    /// users' reads were slow.
    #[serde(default)]
    pub(super) held_back: Option<f64>,
    /// The calls to the kernel with which the engine read for users.
    #[serde(default)]
    pub(super) user_read_calls: Option<Calls>,
    /// What the engine read and wrote, in bytes, by why.
    pub(super) bytes_per_purpose: BTreeMap<String, Transferred>,
    /// Whose the figures of page cache, stalls and missed pages are: the `process`, its memory
    /// `group`, or the whole `machine`.
    pub(super) page_cache_of: Option<String>,
    pub(super) stalls_of: Option<String>,
    pub(super) missed_of: Option<String>,
    /// [`kernel::Figures`], by their names.
    #[serde(flatten)]
    pub(super) told: BTreeMap<String, Option<f64>>,
}

impl Kernel {
    /// Adds what the kernel said.
    pub(super) fn add(&mut self, figures: &kernel::Figures) {
        let name = |scope: kernel::Scope| scope.name().to_owned();
        self.page_cache_of = figures.page_cache_of.map(name);
        self.stalls_of = figures.stalls_of.map(name);
        self.missed_of = figures.missed_of.map(name);
        let named = figures.named().into_iter();
        self.told = named.map(|(name, figure)| (name.to_owned(), figure)).collect();
    }

    /// A figure of the kernel's, if it was told.
    pub(super) fn told(&self, name: &str) -> Option<f64> {
        self.told.get(name).copied().flatten()
    }
}

/// Calls to the kernel, and how long they took.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Calls {
    pub(super) calls_per_second: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) max_us: f64,
}

impl Calls {
    /// Those that were made within so many seconds.
    pub(super) fn of(latencies: &tailwater_io::Latencies, seconds: f64) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
        Self {
            calls_per_second: latencies.count as f64 / seconds,
            p50_us: us(latencies.percentile_ns(50.0)),
            p99_us: us(latencies.percentile_ns(99.0)),
            max_us: us(latencies.max_ns),
        }
    }
}

/// Bytes that went between files and memory; folded they need not be whole.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Transferred {
    pub(super) read_bytes: f64,
    pub(super) written_bytes: f64,
}

impl From<Moved> for Transferred {
    fn from(moved: Moved) -> Self {
        Self { read_bytes: moved.read_bytes as f64, written_bytes: moved.written_bytes as f64 }
    }
}
