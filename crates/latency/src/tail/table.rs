//! Formats a report as a table for a terminal.

use std::fmt;

use serde_json::Value;

use super::plan::Kind;
use super::report::{ConfigurationReport, Report};
use super::units::Bytes;
use crate::experiment::{self, Figure};
use crate::numbers::{micros, rate};

/// Formats the medians of a report as a table, with notes below it.
pub(super) struct Table<'r>(pub(super) &'r Report);

/// The columns after those of the row's name. The flag says whether the ratio to the row `buffered`
/// is shown too.
static FIGURES: [(Figure, bool); 10] = [
    (Figure::new("reads/s>11", "/reads_per_second", rate), true),
    (Figure::new("p50 us>11", "/p50_us", micros), true),
    (Figure::new("p99 us>12", "/p99_us", micros), true),
    (Figure::new("p99.9 us>13", "/p999_us", micros), true),
    (Figure::new("p99.99 us>13", "/p9999_us", micros), true),
    (Figure::new("max ms>6", "/max_us", |us| format!("{:.1}", us / 1000.0)), false),
    (Figure::new(WRITE, "/write_mb_per_second", |rate| format!("{rate:.1}")), false),
    (Figure::new(STALL, "/stall_share", |share| format!("{:.0}%", 100.0 * share)), false),
    (
        Figure::new("compact>7", "/kernel/compaction_mb_per_second", |rate| format!("{rate:.0}")),
        false,
    ),
    (Figure::new("queue>5", "/run_queue_share", |share| format!("{:.1}%", 100.0 * share)), false),
];

const WRITE: &str = "write>6";
const STALL: &str = "stall>5";

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        let kind = self.0.parameters.kind;
        let mut table = experiment::Table::new(&columns(kind));
        for report in &self.0.configurations {
            let name = [report.row.engine.name().to_owned(), report.row.label()];
            let value = serde_json::to_value(report).map_err(|_| fmt::Error)?;
            let figures = figures(kind).map(|figure| cell(&value, figure));
            table.row(name.into_iter().chain(figures));
        }
        write!(f, "{table}")?;
        self.write_legend(f)
    }
}

/// Returns the figures that the table shows in this kind of experiment.
pub(super) fn figures(kind: Kind) -> impl Iterator<Item = &'static (Figure, bool)> {
    let is_shown = move |(figure, _): &&(Figure, bool)| {
        kind == Kind::Overwriting || ![WRITE, STALL].contains(&figure.column)
    };
    FIGURES.iter().filter(is_shown)
}

fn columns(kind: Kind) -> String {
    // With one compaction, the labels of rows end with its rate, such as 128M.
    let label = if kind == Kind::Merging { 34 } else { 29 };
    let figures = Figure::columns(figures(kind).map(|(figure, _)| figure));
    format!("engine<9|configuration<{label}{figures}")
}

/// Returns the cell of a row, which is given as JSON.
pub(super) fn cell(row: &Value, (figure, has_ratio): &(Figure, bool)) -> String {
    let mut text = figure.cell(&row["median"]);
    let ratio = row["ratios_to_buffered"].pointer(figure.place).and_then(Value::as_f64);
    if let Some(ratio) = ratio.filter(|_| *has_ratio) {
        text += &format!(" {ratio:4.2}x");
    }
    for (unequal, mark) in [("unequal_work", '!'), ("unequal_work_of_engines", '*')] {
        let mut unequal = row[unequal].as_array().into_iter().flatten().filter_map(Value::as_str);
        if unequal.any(|work| figure.place.ends_with(work)) {
            text.push(mark);
        }
    }
    text
}

impl Table<'_> {
    fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters = &self.0.parameters;
        let limit = match parameters.limit_bytes {
            Some(limit) if self.0.environment.is_limited => {
                format!("a memory limit of {}", Bytes(limit))
            }
            Some(limit) => format!("NO MEMORY LIMIT ({} cannot be enforced here)", Bytes(limit)),
            None => "no memory limit".to_owned(),
        };
        let length = match parameters.kind {
            Kind::Overwriting => format!(" of {} s", parameters.duration_seconds),
            Kind::Merging => String::new(),
        };
        let runs = self.0.configurations.iter().map(|report| report.runs.len()).max().unwrap_or(0);
        write!(
            f,
            "{} on {}, {} of it read, {limit}; {}{}\n{} {}, ",
            Bytes(parameters.database_bytes()),
            self.0.environment.filesystem(),
            Bytes(parameters.hot_bytes()),
            if runs == 1 { "one run".to_owned() } else { format!("medians of {runs} runs") },
            length,
            parameters.load.readers,
            if parameters.load.readers == 1 { "reader" } else { "readers" },
        )?;
        match parameters.load.reads_per_second {
            Some(rate) => write!(f, "open loop: {rate} reads/s, measured from when they were due")?,
            None => write!(f, "closed loop: a read starts when the previous one has ended")?,
        }
        if parameters.is_warm {
            write!(f, "; the hot set was read once before")?;
        }
        if let Some(batches) = parameters.batch_load {
            write!(f, "\n{}", batches.describe())?;
        }
        let (ratio, compression) = (parameters.load.compression_ratio, parameters.compression());
        if ratio < 1.0 || !compression.is_empty() {
            let options = match compression.trim_end_matches(';') {
                "" => "no compression",
                options => options,
            };
            write!(f, "\nvalues compress to {ratio} of their size; {options}")?;
        }
        match (parameters.kind, parameters.write_bytes_per_second) {
            (Kind::Merging, _) => {
                writeln!(f, "\none compaction merges everything during the reads\n")
            }
            (_, Some(rate)) => writeln!(f, "; {:.1} MB/s to write\n", rate as f64 / 1e6),
            (_, None) => writeln!(f, "\n"),
        }
    }

    fn write_legend(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (columns, advice) = match self.0.parameters.kind {
            Kind::Merging => MERGING_LEGEND,
            Kind::Overwriting => OVERWRITING_LEGEND,
        };
        writeln!(
            f,
            "\n1.00x: as in the engine's row 'buffered'{columns}\nqueue: the share of time that \
             readers waited for a processor: the scheduler causes\nthat part of a tail, not the \
             engine or the disk."
        )?;
        for report in &self.0.configurations {
            if let Some(how) = &report.median.fallen_back {
                let (engine, label) = (report.row.engine.name(), report.row.label());
                writeln!(f, "FALLBACK: {engine} {label}: {how}")?;
            }
        }
        if self.0.configurations.iter().any(|report| !report.unequal_work.is_empty()) {
            writeln!(
                f,
                "!: differs by more than 3 % from 'buffered'. A row that wrote or compacted less \
                 disturbed its reads less,\nso its latencies look better than they are; {advice}"
            )?;
        }
        let of_engines = |report: &ConfigurationReport| !report.unequal_work_of_engines.is_empty();
        if self.0.configurations.iter().any(of_engines) {
            writeln!(
                f,
                "*: differs by more than 3 % from the first engine in the same configuration. An \
                 engine that compacts\nmore for the same writes disturbs its reads more."
            )?;
        }
        Ok(())
    }
}

/// For the experiment with a writer: the explanation of the table's columns, and the advice to give
/// if configurations did unequal amounts of work.
const OVERWRITING_LEGEND: (&str, &str) = (
    ". write, compact: MB/s written by the writer, read and\nwritten by compactions. stall: the \
     share of the time in which the engine stalled the writer.",
    "choose a --write-rate that all rows sustain\n('calibrate' finds one), or a longer \
     --duration.",
);
/// For the experiment with one compaction: the explanation of the table's columns, and the advice
/// to give if configurations did unequal amounts of work.
const MERGING_LEGEND: (&str, &str) = (
    " of the same rate. 128M, 64M: MiB/s that the engine's rate\nlimiter lets compactions write. \
     compact: MB/s that they read and wrote.",
    "compare only rows with the same rate.",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_less_than_140_columns() {
        for kind in [Kind::Overwriting, Kind::Merging] {
            let table = experiment::Table::new(&columns(kind)).to_string();
            assert!(table.trim_end().len() < 140, "{table}");
        }
    }
}
