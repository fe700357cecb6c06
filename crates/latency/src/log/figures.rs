//! The results of a run, as they appear in the report: throughput, latencies and kernel statistics.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::experiment::timeline::Timeline;
use crate::latencies::{SAMPLES_ABOVE_MIN, percentile_curve};

/// The reported percentiles: the name in the report, and the percentile in percent.
const PERCENTILES: [(&str, f64); 5] =
    [("p50_us", 50.0), ("p90_us", 90.0), ("p99_us", 99.0), ("p999_us", 99.9), ("p9999_us", 99.99)];

/// Throughput and latencies of all producers, or of all consumers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Side {
    /// Payload sent or polled, in bytes per second.
    pub(super) bytes_per_second: f64,
    /// The points of [`percentile_curve`].
    pub(super) percentiles_us: Vec<f64>,
    /// Percentiles, maximum and standard deviation, in microseconds, by name. Percentiles with too
    /// few samples above them are left out.
    #[serde(flatten)]
    pub(super) latencies: BTreeMap<String, f64>,
}

/// The measured results of one run, or the median of each result over several runs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) producers: Side,
    pub(super) consumers: Side,
    /// What the kernel reports about the run, such as stalls and the use of the device, by the name
    /// of the value.
    pub(super) kernel: BTreeMap<String, f64>,
    /// The course of a run. It is not aggregated.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub(super) timeline: Option<Timeline>,
}

impl Side {
    /// Computes the results of the producers or of the consumers. `samples` is the number of
    /// independent samples. All messages of a batch have nearly the same latency, so a batch counts
    /// as one sample.
    pub(super) fn new(latencies: &Histogram<u64>, samples: f64, bytes_per_second: f64) -> Self {
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        let mut all = BTreeMap::new();
        for (name, percent) in PERCENTILES {
            if samples * (1.0 - percent / 100.0) >= SAMPLES_ABOVE_MIN {
                all.insert(name.to_owned(), micros(latencies.value_at_quantile(percent / 100.0)));
            }
        }
        all.insert("max_us".to_owned(), micros(latencies.max()));
        all.insert("stddev_us".to_owned(), latencies.stdev() / 1000.0);
        let percentiles_us = percentile_curve(latencies, samples);
        Self { bytes_per_second, percentiles_us, latencies: all }
    }
}
