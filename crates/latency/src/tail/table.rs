//! Formats a report as a table for a terminal.

use std::fmt;

use super::equal_work::Work;
use super::plan::Kind;
use super::report::{ConfigurationReport, Report};
use super::units::Bytes;
use crate::numbers::{Rate, micros};

/// Formats the medians of a report as a table, with notes below it.
pub(super) struct Table<'r>(pub(super) &'r Report);

/// Heading and width of each column. The first two columns are left-aligned, the others
/// right-aligned.
const COLUMNS: [(&str, usize); 12] = [
    ("engine", 9),
    ("configuration", 29),
    ("reads/s", 11),
    ("p50 us", 11),
    ("p99 us", 12),
    ("p99.9 us", 13),
    ("p99.99 us", 13),
    ("max ms", 6),
    ("write", 6),
    ("stall", 5),
    ("compact", 7),
    ("queue", 5),
];

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        let kind = self.0.parameters.kind;
        write_row(f, kind, COLUMNS.map(|(name, _)| name.to_owned()))?;
        for report in &self.0.configurations {
            write_row(f, kind, self.cells(report))?;
        }
        self.write_legend(f)
    }
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
            parameters.readers,
            if parameters.readers == 1 { "reader" } else { "readers" },
        )?;
        match parameters.reads_per_second {
            Some(rate) => write!(f, "open loop: {rate} reads/s, measured from when they were due")?,
            None => write!(f, "closed loop: a read starts when the previous one has ended")?,
        }
        if parameters.is_warm {
            write!(f, "; the hot set was read once before")?;
        }
        match (parameters.kind, parameters.write_bytes_per_second) {
            (Kind::Merging, _) => {
                writeln!(f, "\none compaction merges everything during the reads\n")
            }
            (_, Some(rate)) => writeln!(f, "; {:.1} MB/s to write\n", rate as f64 / 1e6),
            (_, None) => writeln!(f, "\n"),
        }
    }

    fn cells(&self, report: &ConfigurationReport) -> [String; COLUMNS.len()] {
        let median = &report.median;
        let buffered = self.0.buffered(report.row).map(|buffered| &buffered.median);
        let with_ratio = |text: String, ours: f64, theirs: Option<f64>| match theirs {
            Some(theirs) if theirs > 0.0 => format!("{text} {:4.2}x", ours / theirs),
            _ => text,
        };
        let latency = |ours: f64, theirs: Option<f64>| with_ratio(micros(ours), ours, theirs);
        let marks = [(&report.unequal_work, '!'), (&report.unequal_work_of_engines, '*')];
        let of = |work, mut text: String| {
            let marks = marks.iter().filter(|(unequal, _)| unequal.contains(&work));
            text.extend(marks.map(|(_, mark)| mark));
            text
        };
        let (ours, theirs) = (&median.latencies, buffered.map(|buffered| &buffered.latencies));
        let compacted = median.kernel.compaction_mb_per_second;
        [
            report.row.engine.name().to_owned(),
            report.row.label(),
            with_ratio(
                Rate(median.reads_per_second).to_string(),
                median.reads_per_second,
                buffered.map(|buffered| buffered.reads_per_second),
            ),
            latency(ours.p50_us, theirs.map(|theirs| theirs.p50_us)),
            latency(ours.p99_us, theirs.map(|theirs| theirs.p99_us)),
            latency(ours.p999_us, theirs.map(|theirs| theirs.p999_us)),
            latency(ours.p9999_us, theirs.map(|theirs| theirs.p9999_us)),
            format!("{:.1}", ours.max_us / 1000.0),
            of(Work::Written, format!("{:.1}", median.write_mb_per_second)),
            of(Work::Stalled, format!("{:.0}%", 100.0 * median.stall_share)),
            of(Work::Compacted, compacted.map_or("-".to_owned(), |rate| format!("{rate:.0}"))),
            median.run_queue_share.map_or("-".to_owned(), |share| format!("{:.1}%", 100.0 * share)),
        ]
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

/// Returns the width of a column in this kind of experiment; `None` if the column is left out.
fn width(kind: Kind, column: usize) -> Option<usize> {
    let (name, width) = COLUMNS[column];
    match (kind, name) {
        (Kind::Merging, "write" | "stall") => None,
        (Kind::Merging, "configuration") => Some(width + " 128M".len()),
        _ => Some(width),
    }
}

fn write_row(
    f: &mut fmt::Formatter<'_>,
    kind: Kind,
    cells: [String; COLUMNS.len()],
) -> fmt::Result {
    let mut line = String::new();
    for (column, cell) in cells.iter().enumerate() {
        match width(kind, column) {
            Some(width) if column < 2 => line.push_str(&format!("{cell:<width$} ")),
            Some(width) => line.push_str(&format!("{cell:>width$} ")),
            None => {}
        }
    }
    writeln!(f, "{}", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_less_than_140_columns() {
        for kind in [Kind::Overwriting, Kind::Merging] {
            let widths = (0..COLUMNS.len()).filter_map(|column| width(kind, column));
            assert!(widths.map(|width| width + 1).sum::<usize>() < 140);
        }
    }
}
