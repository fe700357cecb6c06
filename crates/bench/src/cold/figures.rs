//! The results of the measurements, and their tables.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tailwater_latency::experiment::{Figure, Measured, Table, turns};
use tailwater_latency::latencies::{Latencies, histogram};
use tailwater_latency::live::Steps;
use tailwater_latency::say;

use super::rows::Row;
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

/// Measures each row once in each round. `relate` sets the ratios of the rows of a round.
pub(super) fn measure_rounds<'d>(
    rows: Vec<Row<'d>>,
    rounds: usize,
    title: &str,
    mut measure: impl FnMut(u64, &Row<'d>) -> Result<Figures, Failure>,
    relate: impl Fn(&[Row<'d>], &mut [Figures]),
) -> Result<Vec<Measured<Row<'d>, Figures>>, Failure> {
    let mut steps = Steps::new(rows.len() * rounds);
    let mut runs: Vec<Vec<Figures>> = rows.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        let mut figures: Vec<Option<Figures>> = rows.iter().map(|_| None).collect();
        for index in turns(rows.len(), round) {
            let label = &rows[index].label;
            let live = steps.next(&format!("{title}: {label}"));
            let measured = measure(round as u64 + 1, &rows[index])
                .map_err(|error| format!("{title}: {label}: {error}"))?;
            drop(live);
            let (rate, p50) = (measured.per_second, measured.latencies.p50_us);
            say!("round {}  {title}: {label}  {rate:.0}/s  p50 {p50:.1} us", round + 1);
            figures[index] = Some(measured);
        }
        let mut figures: Vec<Figures> = figures.into_iter().flatten().collect();
        relate(&rows, &mut figures);
        for (runs, figures) in runs.iter_mut().zip(figures) {
            runs.push(figures);
        }
    }
    rows.into_iter().zip(runs).map(|(row, runs)| Measured::new(row, runs)).collect()
}

/// The results of a part of the benchmark.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    /// What was measured.
    pub(super) title: String,
    /// The columns of the table.
    #[serde(skip)]
    pub(super) columns: &'static [Figure],
    /// The rows as JSON, each with its field `label`.
    pub(super) rows: Vec<Value>,
}

impl Results {
    /// Creates the results from the measured rows.
    pub(super) fn new(
        title: String,
        columns: &'static [Figure],
        measured: &[Measured<Row<'_>, Figures>],
    ) -> Result<Self, Failure> {
        let rows = measured.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        Ok(Self { title, columns, rows })
    }

    /// Returns the title, the table of the medians in Markdown, and the first figure of every run.
    pub(super) fn text(&self) -> Result<String, Failure> {
        let mut table = Table::new(&format!("<{}", Figure::columns(self.columns)));
        let mut every_run = String::new();
        for row in &self.rows {
            let label = row["label"].as_str().unwrap_or_default();
            let cells = self.columns.iter().map(|figure| figure.cell(&row["median"]));
            table.row([label.to_owned()].into_iter().chain(cells));
            if let Some(first) = self.columns.first() {
                let runs = row["runs"].as_array().into_iter().flatten().map(|run| first.cell(run));
                every_run += &format!("- {label}: {}\n", runs.collect::<Vec<_>>().join(", "));
            }
        }
        Ok(format!("\n{}:\n\n{}\nEvery run:\n\n{every_run}", self.title, table.markdown()))
    }
}

/// Formats a ratio.
pub(super) fn ratio(ratio: f64) -> String {
    format!("{ratio:.2}")
}
