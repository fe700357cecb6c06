//! The figures of a run in the report. `docs/tail.md` describes every field.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tailwater_io::kernel;

use super::engine::Moved;
use super::latency::Latencies;

/// The figures of one run, or aggregates (such as medians) over several runs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) reads_per_second: f64,
    /// Keys and values written per second, in megabytes (1,000,000 bytes).
    pub(super) write_mb_per_second: f64,
    #[serde(flatten)]
    pub(super) latencies: Latencies,
    pub(super) reads: f64,
    /// Duration of the phase, in seconds.
    pub(super) seconds: f64,
    /// Fraction of the time for which the engine stalled the writer.
    pub(super) stall_share: f64,
    /// Fraction of the readers' time for which they were runnable but waited for a processor;
    /// `None` if the kernel does not report it.
    pub(super) run_queue_share: Option<f64>,
    /// Time for which a reader was runnable but waited for a processor, in microseconds per read
    /// (mean).
    pub(super) run_queue_us_per_read: Option<f64>,
    /// The engine's description of I/O that did not use the configured mode; `None` if all I/O did.
    #[serde(default)]
    pub(super) fallen_back: Option<String>,
    /// Number of pages of the source database and of its copy that were in the page cache when the
    /// run began; `None` if the kernel does not report it.
    #[serde(default)]
    pub(super) resident_before_pages: Option<f64>,
    /// In the experiment with one compaction: the phase before the compaction, with reads only.
    #[serde(default)]
    pub(super) before_compaction: Option<Phase>,
    /// In the experiment with one compaction: the phase after the compaction, with reads only.
    #[serde(default)]
    pub(super) after_compaction: Option<Phase>,
    pub(super) kernel: Kernel,
}

/// What was measured in a phase of a few seconds in which only readers run.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Phase {
    pub(super) reads_per_second: f64,
    #[serde(flatten)]
    pub(super) latencies: Latencies,
    /// Number of pages per second that had to be read from the device, because they missed the page
    /// cache or because reads use direct I/O; `None` if unknown.
    pub(super) fetched_pages_per_second: Option<f64>,
}

impl Phase {
    /// Takes the fields of a [`Phase`] from the figures of a measurement.
    pub(super) fn of(figures: &Figures, fetched_pages_per_second: Option<f64>) -> Self {
        Self {
            reads_per_second: figures.reads_per_second,
            latencies: figures.latencies,
            fetched_pages_per_second,
        }
    }
}

/// Figures that the kernel and the engine report about the period in which the reads run. A figure
/// that this system does not report is `null`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Kernel {
    /// Bytes that compactions read and wrote, in megabytes (1,000,000 bytes) per second.
    pub(super) compaction_mb_per_second: Option<f64>,
    /// Bytes waiting to be compacted at the end of the run, by the engine's own estimate.
    pub(super) compaction_backlog_bytes: Option<f64>,
    /// Number of times that the engine limited a background stream's requests in flight because
    /// users' reads were slow.
    #[serde(default)]
    pub(super) held_back: Option<f64>,
    /// Rate and latencies of the read calls that users' reads made on files.
    #[serde(default)]
    pub(super) user_read_calls: Option<Calls>,
    /// Bytes that the engine read and wrote, by the name of the purpose.
    pub(super) bytes_per_purpose: BTreeMap<String, Transferred>,
    /// Where the use of the page cache was counted: the `process`, its memory `group` or the whole
    /// `machine`.
    pub(super) page_cache_of: Option<String>,
    /// Where stalls were counted: the `process`, its memory `group` or the whole `machine`.
    pub(super) stalls_of: Option<String>,
    /// Where missed pages were counted: the `process`, its memory `group` or the whole `machine`.
    pub(super) missed_of: Option<String>,
    /// The fields of [`kernel::Figures`], by name.
    #[serde(flatten)]
    pub(super) by_name: BTreeMap<String, Option<f64>>,
}

impl Kernel {
    /// Sets the fields that come from the kernel.
    pub(super) fn add(&mut self, figures: &kernel::Figures) {
        let name = |scope: kernel::Scope| scope.name().to_owned();
        self.page_cache_of = figures.page_cache_of.map(name);
        self.stalls_of = figures.stalls_of.map(name);
        self.missed_of = figures.missed_of.map(name);
        let named = figures.named().into_iter();
        self.by_name = named.map(|(name, figure)| (name.to_owned(), figure)).collect();
    }

    /// Returns one of the numbers measured by the kernel, by its name in the report; `None` if the
    /// kernel did not report it.
    pub(super) fn figure(&self, name: &str) -> Option<f64> {
        self.by_name.get(name).copied().flatten()
    }
}

/// Rate and latencies of system calls.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Calls {
    pub(super) calls_per_second: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) max_us: f64,
}

impl Calls {
    /// Computes the figures of the calls made in a period of `seconds`.
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

/// Bytes read from and written to files. The numbers are fractional because they may be aggregates.
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
