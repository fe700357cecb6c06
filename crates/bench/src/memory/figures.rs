//! The figures of a run, and the report.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use tailwater_latency::experiment::Table;
use tailwater_latency::numbers::{median, rate};

use super::subject::Limits;
use crate::process::Resident;

const MIB: f64 = (1 << 20) as f64;

/// The memory at one time.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Sample {
    /// Seconds since the load began.
    pub(super) at_s: f64,
    pub(super) resident: Resident,
    /// What the engine says about its memory: parts in bytes.
    pub(super) live: Vec<(String, u64)>,
}

impl Sample {
    fn live_sum(&self) -> u64 {
        self.live.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// The figures of one engine.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) engine: String,
    /// The memory before the databases were opened.
    pub(super) base: Resident,
    pub(super) samples: Vec<Sample>,
    pub(super) writes_per_second: f64,
    pub(super) reads_per_second: f64,
    /// The number of errors of each kind, with the message of the first.
    pub(super) errors: BTreeMap<String, (u64, String)>,
}

impl Figures {
    fn middle(&self, of: impl Fn(&Sample) -> u64) -> f64 {
        let figures: Vec<f64> = self.samples.iter().map(|sample| of(sample) as f64).collect();
        if figures.is_empty() { 0.0 } else { median(figures) }
    }

    /// Returns the sample with the most resident memory.
    fn peak(&self) -> Option<&Sample> {
        self.samples.iter().max_by_key(|sample| sample.resident.total)
    }
}

/// Returns the report on all engines.
pub(super) fn report(limits: &Limits, databases: u32, results: &[Figures]) -> String {
    let sum = limits.sum() as f64;
    let mut text = format!(
        "{databases} databases in one process; memtables up to {} MiB{}, a strict cache of {} MiB; \
         configured sum {} MiB. Memory in MiB; base is what was resident before the databases were \
         opened.\n\n",
        limits.memtables_bytes >> 20,
        if limits.charges_memtables { ", charged to the cache" } else { "" },
        limits.cache_bytes >> 20,
        limits.sum() >> 20,
    );
    let mut table = Table::new(
        "engine<12|base>8|resident, median>8|max>8|max, of the sum>8|max above base, of the sum>8|\
         engine's own sum, median>8|max>8|writes/s>8|reads/s>8|errors>8",
    );
    let mib = |bytes: f64| format!("{:.0}", bytes / MIB);
    for figures in results {
        let peak = figures.peak().map_or(0, |sample| sample.resident.total) as f64;
        let live_max = figures.samples.iter().map(Sample::live_sum).max().unwrap_or(0);
        let base = figures.base.total as f64;
        let percent = |bytes: f64| format!("{:.1} %", 100.0 * bytes / sum);
        table.row([
            figures.engine.clone(),
            mib(base),
            mib(figures.middle(|sample| sample.resident.total)),
            mib(peak),
            percent(peak),
            percent(peak - base),
            mib(figures.middle(Sample::live_sum)),
            mib(live_max as f64),
            rate(figures.writes_per_second),
            rate(figures.reads_per_second),
            figures.errors.values().map(|(count, _)| count).sum::<u64>().to_string(),
        ]);
    }
    text += &table.markdown();
    for figures in results {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n{}:\n", figures.engine);
        for (kind, (count, message)) in &figures.errors {
            let _ = writeln!(text, "- error {kind}: {count} times; the first: {message}");
        }
        if let Some(sample) = figures.peak() {
            let Sample { at_s, resident: Resident { total, anonymous }, live } = sample;
            let (total, anonymous) = (mib(*total as f64), mib(*anonymous as f64));
            let _ = write!(
                text,
                "- at the maximum, after {at_s:.1} s: {total} resident, {anonymous} of them \
                 anonymous; the engine's parts:"
            );
            for (name, bytes) in live {
                let _ = write!(text, " {name} {:.1},", *bytes as f64 / MIB);
            }
            let _ = writeln!(text, " sum {}", mib(sample.live_sum() as f64));
        }
    }
    text
}
