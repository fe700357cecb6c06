//! The figures of a measurement.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use tailwater_latency::latencies::{Latencies, histogram};

use crate::store::Failure;

/// The figures of a row in one round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Figures {
    /// Keys, seeks or bytes per second.
    pub(super) per_second: f64,
    /// Latencies of the operations: gets, batches or seeks.
    #[serde(flatten)]
    pub(super) latencies: Latencies,
    /// The row's rate, or its median latency, divided by that of the row with which all rows are
    /// compared; `None` until all rows of the round have been measured.
    pub(super) to_reference: Option<f64>,
    /// The median latency of raw reads divided by the row's. Like `to_reference` in the parts `get`
    /// and `multi-get`, but not affected by the few operations that waited for a processor; `None`
    /// in other parts.
    pub(super) to_raw_by_p50: Option<f64>,
    /// The row's median latency divided by that of raw reads of as many blocks at once; `None` in
    /// other parts than `seek`.
    pub(super) to_at_once: Option<f64>,
    /// The row's rate divided by that of RocksDB without `async_io`, if it is measured.
    pub(super) to_rocksdb: Option<f64>,
}

/// The durations of operations.
pub(super) struct Timed {
    latencies: Histogram<u64>,
    total: Duration,
}

impl Timed {
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self { latencies: histogram()?, total: Duration::ZERO })
    }

    /// Performs an operation, and records its duration.
    pub(super) fn operation(
        &mut self,
        work: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.slowest_of([work], |work| work())
    }

    /// Performs an operation of several steps, and records the duration of the slowest.
    pub(super) fn slowest_of<T>(
        &mut self,
        steps: impl IntoIterator<Item = T>,
        mut work: impl FnMut(T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut slowest = Duration::ZERO;
        for step in steps {
            let begun = Instant::now();
            work(step)?;
            slowest = slowest.max(begun.elapsed());
        }
        self.total += slowest;
        self.latencies.saturating_record(slowest.as_nanos() as u64);
        Ok(())
    }

    /// Returns the figures, given the number of keys or bytes of each operation.
    pub(super) fn figures(self, of_operation: u64) -> Figures {
        let operations = self.latencies.len() * of_operation;
        Figures {
            per_second: operations as f64 / self.total.as_secs_f64(),
            latencies: Latencies::of(&self.latencies),
            to_reference: None,
            to_raw_by_p50: None,
            to_at_once: None,
            to_rocksdb: None,
        }
    }
}

/// Formats a ratio.
pub(super) fn ratio(ratio: f64) -> String {
    format!("{ratio:.2}")
}
