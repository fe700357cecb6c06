//! The tables of the experiment, and its report.json.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::LogBenchArguments;
use super::document::{SIDE, document};
use super::figures::Figures;
use super::mode::Mode;
use crate::experiment::{Figure, Finished, KERNEL, Measured, Table, command, environment, now};
use crate::failure::Failure;
use crate::report::ReportFiles;
use crate::tail::Bytes;

/// The kernel's figures that are in the table.
const KERNEL_SHOWN: [&str; 6] =
    ["dirty/s>8", "mem us/s>8", "io us/s>8", "w ms>8", "depth>8", "busy %>8"];

/// A row of the table: a mode and two thresholds. Messages are persisted when their number or their
/// size in bytes reaches its threshold.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) mode: Mode,
    pub(super) messages_required_to_save: u32,
    pub(super) size_of_messages_required_to_save: u64,
    /// Whether the label includes the thresholds, which is necessary if they differ between rows.
    #[serde(skip)]
    shows_thresholds: bool,
}

impl Row {
    /// Returns the requested rows.
    pub(super) fn all(arguments: &LogBenchArguments) -> Vec<Self> {
        let messages = &arguments.messages_required_to_save;
        let sizes = &arguments.size_of_messages_required_to_save;
        let shows_thresholds = messages.len() > 1 || sizes.len() > 1;
        let mut rows = Vec::new();
        for &mode in &arguments.modes {
            for &messages_required_to_save in messages {
                for &Bytes(size_of_messages_required_to_save) in sizes {
                    rows.push(Self {
                        mode,
                        messages_required_to_save,
                        size_of_messages_required_to_save,
                        shows_thresholds,
                    });
                }
            }
        }
        rows
    }

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

/// Writes report.json, in the same format as the report.json of `tailwater tail`, and formats the
/// tables.
pub(super) fn finish(
    arguments: &LogBenchArguments,
    measured: &[Measured<Row, Figures>],
    files: &ReportFiles,
) -> Result<Finished, Failure> {
    let environment = environment(&arguments.directory).into_iter();
    let environment = environment.map(|(name, value)| (name.to_owned(), value.into()));
    let report = json!({
        "schema": 1,
        "command": command(),
        "measured_at": now(),
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
        "environment": environment.collect::<Map<String, Value>>(),
        "configurations": measured,
    });
    let text = format!(
        "{:.0} MB/s each way in batches of {} messages of {} bytes; {} partitions, {} producers and {} \
         consumers,\n{} event loop{}; medians of {} runs of {} s\n\n{}\n{}\n{}\n\
         Latencies are measured from the scheduled send time: a producer's to its acknowledgement, a \
         consumer's\nto the poll that contains the message. '-': fewer than ten samples above.\n",
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
        side("producers", measured)?,
        side("consumers", measured)?,
        kernel(measured)?,
    );
    Finished::recorded(text + "\n", &report, files, document)
}

fn side(name: &str, measured: &[Measured<Row, Figures>]) -> Result<Table, Failure> {
    let mut table = Table::new(&format!("{name}<28{}", Figure::columns(&SIDE)));
    for Measured { row, median, .. } in measured {
        let median = serde_json::to_value(median)?;
        let cells = SIDE.iter().map(|figure| figure.cell(&median[name]));
        table.row([row.label()].into_iter().chain(cells));
    }
    Ok(table)
}

fn kernel(measured: &[Measured<Row, Figures>]) -> Result<Table, Failure> {
    let shown = KERNEL.iter().filter(|figure| KERNEL_SHOWN.contains(&figure.column));
    let mut table = Table::new(&format!("kernel<28|both>6{}", Figure::columns(shown.clone())));
    for Measured { row, median, .. } in measured {
        let both = median.producers.bytes_per_second + median.consumers.bytes_per_second;
        let kernel = serde_json::to_value(&median.kernel)?;
        let first = [row.label(), format!("{:.1}", both / 1e6)];
        table.row(first.into_iter().chain(shown.clone().map(|figure| figure.cell(&kernel))));
    }
    Ok(table)
}
