//! Sums and histograms of the slow reads of a database.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::cause::SlowReadCause;
use super::record::{Operation, SlowRead};
use crate::stats::HistogramData;
use crate::stats::histograms::{Buckets, Distribution};

const CAUSES: usize = SlowReadCause::ALL.len();
const OPERATIONS: usize = Operation::ALL.len();

/// Totals that any thread adds to. Only slow reads do.
#[derive(Debug, Default)]
pub(super) struct Totals {
    operations: [AtomicU64; OPERATIONS],
    durations: Buckets,
    /// Microseconds of each read that took any of that cause.
    causes: [Buckets; CAUSES],
    blocks: AtomicU64,
    of_new_tables: AtomicU64,
    read_by_others: AtomicU64,
    blobs: AtomicU64,
    minor_faults: AtomicU64,
    major_faults: AtomicU64,
}

/// Totals of the slow reads of a database since it was opened.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SlowReadTotals {
    /// Duration from which on a read is slow, in microseconds; 0 if reads are not attributed.
    pub threshold_us: u64,
    /// Durations of the slow reads, in microseconds.
    pub durations: HistogramData,
    causes: [HistogramData; CAUSES],
    /// Blocks that slow reads read from files.
    pub blocks: u64,
    /// Those of tables that were added within the last ten seconds.
    pub blocks_of_new_tables: u64,
    /// Those that another thread read at the same time.
    pub blocks_read_by_others: u64,
    /// Values that slow reads read from blob files.
    pub blobs: u64,
    /// Page faults without a read from the device.
    pub minor_faults: u64,
    /// Page faults with one.
    pub major_faults: u64,
    /// Number of slow reads, by kind.
    operations: [u64; OPERATIONS],
}

impl Totals {
    pub(super) fn add(&self, read: &SlowRead) {
        let add = |counter: &AtomicU64, by: u64| {
            counter.fetch_add(by, Relaxed);
        };
        add(&self.operations[read.operation as usize], 1);
        self.durations.record(read.spent.total_ns / 1000, add);
        for (cause, buckets) in SlowReadCause::ALL.iter().zip(&self.causes) {
            let us = cause.of(&read.spent) / 1000;
            if us > 0 {
                buckets.record(us, add);
            }
        }
        let counts = &read.counts;
        add(&self.blocks, counts.blocks.iter().flatten().map(|&count| u64::from(count)).sum());
        add(&self.of_new_tables, counts.of_new_tables.into());
        add(&self.read_by_others, counts.read_by_others.into());
        add(&self.blobs, counts.blobs.into());
        add(&self.minor_faults, read.spent.minor_faults);
        add(&self.major_faults, read.spent.major_faults);
    }

    pub(super) fn sum(&self, threshold_us: u64) -> SlowReadTotals {
        let summary = |buckets: &Buckets| {
            let mut distribution = Distribution::default();
            buckets.add_to(&mut distribution);
            distribution.summary()
        };
        SlowReadTotals {
            threshold_us,
            durations: summary(&self.durations),
            causes: std::array::from_fn(|cause| summary(&self.causes[cause])),
            blocks: self.blocks.load(Relaxed),
            blocks_of_new_tables: self.of_new_tables.load(Relaxed),
            blocks_read_by_others: self.read_by_others.load(Relaxed),
            blobs: self.blobs.load(Relaxed),
            minor_faults: self.minor_faults.load(Relaxed),
            major_faults: self.major_faults.load(Relaxed),
            operations: std::array::from_fn(|at| self.operations[at].load(Relaxed)),
        }
    }
}

impl SlowReadTotals {
    /// Returns the histogram of a cause: the microseconds of each read that went to it, of reads
    /// with at least one.
    pub fn cause(&self, cause: SlowReadCause) -> &HistogramData {
        &self.causes[cause as usize]
    }

    /// Returns the share of a cause in the time of all slow reads: from 0 to 1.
    pub fn share(&self, cause: SlowReadCause) -> f64 {
        match self.durations.sum {
            0 => 0.0,
            sum => self.cause(cause).sum as f64 / sum as f64,
        }
    }

    /// Returns the number of slow reads of each kind: `get`, `multi_get`, `iterator` (its
    /// creation), `seek`, `step`, `value` (one that was deferred) and `refresh`.
    pub fn by_operation(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Operation::ALL.iter().map(|operation| operation.name()).zip(self.operations)
    }

    /// Returns the totals in Prometheus's text format, version 0.0.4.
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, String)]| {
            let _ = writeln!(text, "# HELP tailwater_{name} {help}");
            let _ = writeln!(text, "# TYPE tailwater_{name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(text, "tailwater_{name}{labels} {value}");
            }
        };
        let label = |name: &str, value: &str| format!("{{{name}=\"{value}\"}}");
        let reads: Vec<_> = self
            .by_operation()
            .map(|(name, count)| (label("operation", name), count.to_string()))
            .collect();
        family("slow_reads_total", "counter", "Reads that took at least the threshold.", &reads);
        let durations = summary(&self.durations, "");
        family("slow_reads_seconds", "summary", "Time of slow reads.", &durations);
        let causes: Vec<_> = SlowReadCause::ALL
            .iter()
            .flat_map(|&cause| summary(self.cause(cause), &format!("cause=\"{}\"", cause.name())))
            .collect();
        let help = "Time of slow reads that went to a cause.";
        family("slow_reads_cause_seconds", "summary", help, &causes);
        for (name, help, count) in [
            ("blocks", "Blocks that slow reads read from files.", self.blocks),
            (
                "new_table_blocks",
                "Those of tables that were just added.",
                self.blocks_of_new_tables,
            ),
            ("repeated_blocks", "Those that others read, too.", self.blocks_read_by_others),
            ("blobs", "Values that slow reads read from blob files.", self.blobs),
        ] {
            let samples = [(String::new(), count.to_string())];
            family(&format!("slow_reads_{name}_total"), "counter", help, &samples);
        }
        let faults = [
            (label("kind", "minor"), self.minor_faults.to_string()),
            (label("kind", "major"), self.major_faults.to_string()),
        ];
        let help = "Page faults of slow reads.";
        family("slow_reads_page_faults_total", "counter", help, &faults);
        text
    }
}

/// Returns the samples of a summary, in seconds: the ends of their names with labels, and values.
fn summary(data: &HistogramData, label: &str) -> Vec<(String, String)> {
    let quantiles =
        [("0.5", data.median), ("0.95", data.percentile_95), ("0.99", data.percentile_99)];
    let comma = if label.is_empty() { "" } else { "," };
    let mut samples: Vec<_> = quantiles
        .iter()
        .map(|(quantile, us)| {
            (format!("{{{label}{comma}quantile=\"{quantile}\"}}"), (us / 1e6).to_string())
        })
        .collect();
    let labels = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
    samples.push((format!("_sum{labels}"), (data.sum as f64 / 1e6).to_string()));
    samples.push((format!("_count{labels}"), data.count.to_string()));
    samples
}

impl fmt::Display for SlowReadTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.threshold_us == 0 && self.durations.count == 0 {
            return writeln!(f, "off: slow_read_threshold_us is 0");
        }
        write!(f, "threshold {} us, slow reads {}", self.threshold_us, self.durations.count)?;
        for (name, count) in self.by_operation().filter(|(_, count)| *count > 0) {
            write!(f, ", {name} {count}")?;
        }
        writeln!(f)?;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, share: f64, data: &HistogramData| {
            writeln!(
                f,
                "{name:<12} {:>5.1} %  sum {} us  reads {}  \
                 p50 {:.0}  p95 {:.0}  p99 {:.0}  max {}",
                100.0 * share,
                data.sum,
                data.count,
                data.median,
                data.percentile_95,
                data.percentile_99,
                data.max
            )
        };
        line(f, "total", if self.durations.sum > 0 { 1.0 } else { 0.0 }, &self.durations)?;
        for cause in SlowReadCause::ALL {
            line(f, cause.name(), self.share(cause), self.cause(cause))?;
        }
        writeln!(
            f,
            "blocks read {}, of new tables {}, read by others at the same time {}, blobs {}",
            self.blocks, self.blocks_of_new_tables, self.blocks_read_by_others, self.blobs
        )?;
        writeln!(f, "page faults: minor {}, major {}", self.minor_faults, self.major_faults)
    }
}
