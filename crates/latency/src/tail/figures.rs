//! The reported figures of a run; `docs/tail.md` describes every field.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tailwater_io::kernel;

use super::engine::Moved;
use super::latency::Latencies;

/// The figures of a run, or aggregates of several runs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) reads_per_second: f64,
    /// Rate of keys and values written, in megabytes of 1,000,000 bytes per second.
    pub(super) write_mb_per_second: f64,
    #[serde(flatten)]
    pub(super) latencies: Latencies,
    pub(super) reads: f64,
    /// Duration of the reads, in seconds.
    pub(super) seconds: f64,
    /// Fraction of the time in which the engine stalled the writer.
    pub(super) stall_share: f64,
    /// Fraction of the time in which readers were runnable but waited for a processor.
    pub(super) run_queue_share: Option<f64>,
    /// Mean time per read in which the reader was runnable but waited for a processor, in
    /// microseconds.
    pub(super) run_queue_us_per_read: Option<f64>,
    /// The engine's description of I/O that did not use the configured mode; `None` if there was
    /// none.
    #[serde(default)]
    pub(super) fallen_back: Option<String>,
    /// Number of the databases' pages that were in memory at the start of the run, if the kernel
    /// reports it.
    #[serde(default)]
    pub(super) resident_before_pages: Option<f64>,
    /// The reads without concurrent work, right before and right after the one compaction.
    #[serde(default)]
    pub(super) before_compaction: Option<Phase>,
    #[serde(default)]
    pub(super) after_compaction: Option<Phase>,
    pub(super) kernel: Kernel,
}

/// Figures of a few seconds of reads without concurrent work.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Phase {
    pub(super) reads_per_second: f64,
    #[serde(flatten)]
    pub(super) latencies: Latencies,
    /// Number of pages fetched from the device per second, by misses of the page cache or by direct
    /// I/O, if known.
    pub(super) fetched_pages_per_second: Option<f64>,
}

impl Phase {
    /// Creates a phase from the figures of reads without concurrent work.
    pub(super) fn of(figures: &Figures, fetched_pages_per_second: Option<f64>) -> Self {
        Self {
            reads_per_second: figures.reads_per_second,
            latencies: figures.latencies,
            fetched_pages_per_second,
        }
    }
}

/// Figures of the kernel and the engine on the work concurrent with the reads. Figures that this
/// system does not report are `null`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Kernel {
    /// Rate at which compactions read and wrote, in megabytes per second.
    pub(super) compaction_mb_per_second: Option<f64>,
    /// Compaction backlog at the end of the run, by the engine's estimate.
    pub(super) compaction_backlog_bytes: Option<f64>,
    /// Number of times that a background stream of the engine was granted fewer concurrent requests
    /// than it wanted, because users' reads were slow.
    #[serde(default)]
    pub(super) held_back: Option<f64>,
    /// Read calls on files that the engine made for users' reads.
    #[serde(default)]
    pub(super) user_read_calls: Option<Calls>,
    /// Bytes that the engine read and wrote, by purpose.
    pub(super) bytes_per_purpose: BTreeMap<String, Transferred>,
    /// Scope of the figures of page cache, stalls and missed pages: the `process`, its memory
    /// `group`, or the whole `machine`.
    pub(super) page_cache_of: Option<String>,
    pub(super) stalls_of: Option<String>,
    pub(super) missed_of: Option<String>,
    /// The fields of [`kernel::Figures`], by name.
    #[serde(flatten)]
    pub(super) by_name: BTreeMap<String, Option<f64>>,
}

impl Kernel {
    /// Adds the kernel's figures.
    pub(super) fn add(&mut self, figures: &kernel::Figures) {
        let name = |scope: kernel::Scope| scope.name().to_owned();
        self.page_cache_of = figures.page_cache_of.map(name);
        self.stalls_of = figures.stalls_of.map(name);
        self.missed_of = figures.missed_of.map(name);
        let named = figures.named().into_iter();
        self.by_name = named.map(|(name, figure)| (name.to_owned(), figure)).collect();
    }

    /// Returns a figure of the kernel, if it is known.
    pub(super) fn figure(&self, name: &str) -> Option<f64> {
        self.by_name.get(name).copied().flatten()
    }
}

/// System calls and their durations.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Calls {
    pub(super) calls_per_second: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) max_us: f64,
}

impl Calls {
    /// Returns the figures of calls made within `seconds`.
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

/// Bytes moved between files and memory; aggregated numbers need not be integers.
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
