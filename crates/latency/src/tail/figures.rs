//! The figures of a run in the report. `docs/tail.md` describes every field. A figure that is
//! unknown is `None`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tailwater_io::kernel;

use super::batches::BatchFigures;
use super::caches::Caches;
use super::engine::Moved;
use super::slow_reads::SlowReadFigures;
use crate::latencies::Latencies;

/// The figures of one run, or aggregates (such as medians) over several runs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) reads_per_second: f64,
    pub(super) write_mb_per_second: f64,
    #[serde(flatten)]
    pub(super) latencies: Latencies,
    pub(super) reads: f64,
    pub(super) seconds: f64,
    pub(super) stall_share: f64,
    pub(super) run_queue_share: Option<f64>,
    pub(super) run_queue_us_per_read: Option<f64>,
    pub(super) fallen_back: Option<String>,
    pub(super) resident_before_pages: Option<f64>,
    /// Reads of the same configuration without a writer, with the hot set in memory.
    pub(super) baseline: Option<Phase>,
    /// Reads per second as a share of those without other work: of the baseline or, with one
    /// compaction, of the reads before it.
    pub(super) reads_kept: Option<f64>,
    /// The p99.9 as a multiple of that without other work.
    pub(super) p999_rise: Option<f64>,
    pub(super) before_compaction: Option<Phase>,
    pub(super) after_compaction: Option<Phase>,
    /// What the clients measured that got batches; `None` without such clients.
    pub(super) batches: Option<BatchFigures>,
    #[serde(default)]
    pub(super) caches: Caches,
    /// Slow reads and their causes; `None` if they are not attributed.
    pub(super) slow_reads: Option<SlowReadFigures>,
    pub(super) kernel: Kernel,
}

impl Figures {
    /// Sets the figures that compare these reads with reads without other work.
    pub(super) fn compare_with(&mut self, alone: &Phase) {
        let ratio = |ours: f64, alone: f64| (alone > 0.0).then(|| ours / alone);
        self.reads_kept = ratio(self.reads_per_second, alone.reads_per_second);
        self.p999_rise = ratio(self.latencies.p999_us, alone.latencies.p999_us);
    }
}

/// What was measured in a phase of a few seconds in which only readers run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Phase {
    pub(super) reads_per_second: f64,
    #[serde(flatten)]
    pub(super) latencies: Latencies,
    pub(super) fetched_pages_per_second: Option<f64>,
    pub(super) slow_reads: Option<SlowReadFigures>,
}

impl Phase {
    /// Takes the fields of a [`Phase`] from the figures of a measurement.
    pub(super) fn of(figures: &Figures, fetched_pages_per_second: Option<f64>) -> Self {
        Self {
            reads_per_second: figures.reads_per_second,
            latencies: figures.latencies.clone(),
            fetched_pages_per_second,
            slow_reads: figures.slow_reads.clone(),
        }
    }
}

/// Figures that the kernel and the engine report about the period in which the reads run. A figure
/// that this system does not report is `null`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Kernel {
    pub(super) compaction_mb_per_second: Option<f64>,
    pub(super) compaction_backlog_bytes: Option<f64>,
    pub(super) held_back: Option<f64>,
    pub(super) user_read_calls: Option<Calls>,
    pub(super) bytes_per_purpose: BTreeMap<String, Moved>,
    pub(super) page_cache_of: Option<String>,
    pub(super) stalls_of: Option<String>,
    pub(super) missed_of: Option<String>,
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
