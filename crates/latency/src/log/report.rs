//! The tables of the experiment, and its report.json.

use std::fmt;

use serde::Serialize;
use serde_json::json;

use super::LogBenchArguments;
use super::figures::{Figures, Side};
use super::mode::Mode;
use crate::failure::Failure;
use crate::files::write_json;

/// The latencies in the table: name of the figure, and column heading.
const COLUMNS: [(&str, &str); 7] = [
    ("p50_us", "p50"),
    ("p90_us", "p90"),
    ("p99_us", "p99"),
    ("p999_us", "p99.9"),
    ("p9999_us", "p99.99"),
    ("max_us", "max"),
    ("stddev_us", "stddev"),
];

/// The kernel's figures in the table: name of the figure, column heading, and the divisor that
/// converts the figure to the unit in the heading.
const KERNEL: [(&str, &str, f64); 6] = [
    ("dirtied_pages_per_second", "dirty/s", 1.0),
    ("memory_stall_us_per_second", "mem us/s", 1.0),
    ("io_stall_us_per_second", "io us/s", 1.0),
    ("w_await_ms", "w ms", 1.0),
    ("queue_depth", "depth", 1.0),
    ("utilisation", "busy %", 0.01),
];

/// A row of the table: a mode and two thresholds. Messages are persisted when their number or their
/// size in bytes reaches its threshold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) mode: Mode,
    pub(super) messages_required_to_save: u32,
    pub(super) size_of_messages_required_to_save: u64,
    /// Whether the label includes the thresholds, which is necessary if they differ between rows.
    #[serde(skip)]
    shows_thresholds: bool,
}

impl Row {
    pub(super) fn label(&self) -> String {
        match self.shows_thresholds {
            true => format!(
                "{} {}/{}K",
                self.mode,
                self.messages_required_to_save,
                self.size_of_messages_required_to_save >> 10
            ),
            false => self.mode.to_string(),
        }
    }
}

/// The figures of one row, as written to report.json.
#[derive(Debug, Serialize)]
struct Configuration<'a> {
    #[serde(flatten)]
    row: &'a Row,
    median: Figures,
    runs: &'a [Figures],
}

/// The results of the experiment.
pub(super) struct Report {
    head: String,
    rows: Vec<(Row, Vec<Figures>)>,
}

impl Report {
    pub(super) fn new(arguments: &LogBenchArguments) -> Self {
        let messages = &arguments.messages_required_to_save;
        let sizes = &arguments.size_of_messages_required_to_save;
        let shows_thresholds = messages.len() > 1 || sizes.len() > 1;
        let mut rows = Vec::new();
        for &mode in &arguments.modes {
            for &messages_required_to_save in messages {
                for size in sizes {
                    let size_of_messages_required_to_save = size.0;
                    let row = Row {
                        mode,
                        messages_required_to_save,
                        size_of_messages_required_to_save,
                        shows_thresholds,
                    };
                    rows.push((row, Vec::new()));
                }
            }
        }
        let head = format!(
            "{:.0} MB/s each way in batches of {} messages of {} bytes; {} partitions, {} producers and {} \
             consumers,\n{} event loop{}; medians of {} runs of {} s\n",
            arguments.rate.0 as f64 / 1e6,
            arguments.batch,
            arguments.message_size,
            arguments.partitions,
            arguments.clients,
            arguments.clients,
            arguments.loops,
            if arguments.loops == 1 { "" } else { "s" },
            arguments.runs,
            arguments.duration,
        );
        Self { head, rows }
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        self.rows.iter().map(|(row, _)| row.clone()).collect()
    }

    pub(super) fn add(&mut self, row: &Row, figures: Figures) {
        if let Some((_, runs)) = self.rows.iter_mut().find(|(other, _)| other == row) {
            runs.push(figures);
        }
    }

    /// Writes report.json, in the same format as the report.json of `tailwater tail`.
    pub(super) fn write(&self, arguments: &LogBenchArguments) -> Result<(), Failure> {
        let configurations: Vec<_> = self
            .rows
            .iter()
            .map(|(row, runs)| Configuration { row, median: Figures::median(runs), runs })
            .collect();
        let environment = tailwater_io::kernel::Environment::of_directory(
            &tailwater_io::kernel::System::default(),
            &arguments.directory,
        )
        .named();
        let environment: serde_json::Map<_, _> =
            environment.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        let report = json!({
            "schema": 1,
            "parameters": {
                "rate_bytes_per_second": arguments.rate.0,
                "batch": arguments.batch,
                "message_size": arguments.message_size,
                "partitions": arguments.partitions,
                "clients": arguments.clients,
                "loops": arguments.loops,
                "persisters": arguments.persisters,
                "balanced": arguments.balanced,
                "duration_seconds": arguments.duration,
                "segment_bytes": arguments.segment_size.0,
            },
            "environment": environment,
            "configurations": configurations,
        });
        let path = arguments.out.clone();
        let path = path.unwrap_or_else(|| arguments.directory.join("report.json"));
        write_json(&path, &report)
    }

    fn write_side(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: &str,
        side: fn(&Figures) -> &Side,
    ) -> fmt::Result {
        write!(f, "\n{name:28} {:>6}", "MB/s")?;
        for (_, head) in COLUMNS {
            write!(f, " {head:>8}")?;
        }
        writeln!(f, "  (ms)")?;
        for (row, runs) in &self.rows {
            let median = Figures::median(runs);
            let side = side(&median);
            write!(f, "{:28} {:6.1}", row.label(), side.bytes_per_second / 1e6)?;
            for (column, _) in COLUMNS {
                match side.latencies.get(column) {
                    Some(micros) => write!(f, " {:>8}", millis(*micros))?,
                    None => write!(f, " {:>8}", "-")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Formats microseconds as milliseconds, with three significant digits.
fn millis(micros: f64) -> String {
    match micros / 1000.0 {
        millis if millis >= 100.0 => format!("{millis:.0}"),
        millis if millis >= 10.0 => format!("{millis:.1}"),
        millis if millis >= 1.0 => format!("{millis:.2}"),
        millis => format!("{millis:.3}"),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.head)?;
        self.write_side(f, "producers", |figures| &figures.producers)?;
        self.write_side(f, "consumers", |figures| &figures.consumers)?;
        write!(f, "\n{:28} {:>6}", "kernel", "both")?;
        for (_, head, _) in KERNEL {
            write!(f, " {head:>8}")?;
        }
        writeln!(f)?;
        for (row, runs) in &self.rows {
            let median = Figures::median(runs);
            let both = median.producers.bytes_per_second + median.consumers.bytes_per_second;
            write!(f, "{:28} {:6.1}", row.label(), both / 1e6)?;
            for (name, _, unit) in KERNEL {
                match median.kernel.get(name) {
                    Some(figure) if figure / unit >= 10.0 => write!(f, " {:8.0}", figure / unit)?,
                    Some(figure) => write!(f, " {:8.2}", figure / unit)?,
                    None => write!(f, " {:>8}", "-")?,
                }
            }
            writeln!(f)?;
        }
        writeln!(
            f,
            "\nLatencies are measured from the scheduled send time: a producer's to its acknowledgement, a \
             consumer's\nto the poll that contains the message. '-': fewer than ten samples above."
        )
    }
}
