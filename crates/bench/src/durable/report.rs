//! The results: `report.json` and a table.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use tailwater_latency::entries::KEY_BYTES;
use tailwater_latency::experiment::{Figure, Table, command, environment, medians, now};
use tailwater_latency::numbers::{micros, rate};

use super::arguments::{DurableArguments, Part};
use super::rows::{Row, Writes};
use super::task::Task;
use crate::store::Failure;
use crate::workloads::puts::{Figures, Length, VALUE_BYTES};

/// All results.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Version of the report's fields; it changes when the meaning of a field changes.
    schema: u32,
    /// The command line, and when the experiment ended.
    command: String,
    measured_at: String,
    /// The duration, or the number of puts, after which a measurement of `synced` or `unsynced`
    /// ends.
    length: Length,
    /// The number of puts after which a measurement of `fillseq` ends.
    fillseq_length: Length,
    runs: usize,
    /// Whether busy processes ran on every processor.
    neighbour: bool,
    /// Label of the engine row to which all engine rows are compared; `None` if the report has only
    /// one engine row. An engine row has the results of an engine with one set of options.
    compared_with: Option<String>,
    /// Properties of the system and the device, by name.
    environment: BTreeMap<&'static str, String>,
    notes: Vec<String>,
    measurements: Vec<Measurement>,
}

/// The results of one row (raw writes, or an engine with its options) in one task, over all runs.
#[derive(Debug, Serialize)]
pub(super) struct Measurement {
    #[serde(flatten)]
    task: Task,
    label: String,
    /// The engine's options; raw writes have none.
    options: Option<String>,
    median: Figures,
    /// In each run, the row's rate is divided by the rate of raw writes. This is the median of
    /// these ratios over all runs.
    to_raw: Option<f64>,
    /// In each run, the row's rate is divided by the rate of the row `compared_with`. This is the
    /// median of these ratios over all runs.
    to_compared: Option<f64>,
    runs: Vec<Figures>,
}

impl Measurement {
    /// Creates the measurement of `row`. `runs` has the figures of `row` in each run. `raw` has the
    /// figures of raw writes (without an engine) in the same runs. `compared` has the figures of
    /// the engine row with which all engine rows are compared.
    pub(super) fn new(
        task: Task,
        row: &Row<'_>,
        runs: Vec<Figures>,
        raw: Option<&[Figures]>,
        compared: Option<&[Figures]>,
    ) -> Result<Self, Failure> {
        let options = match &row.writes {
            Writes::Raw(_) => None,
            Writes::Engine { options, .. } => Some(options.clone()),
        };
        Ok(Self {
            task,
            label: row.label.clone(),
            options,
            median: medians(&runs)?,
            to_raw: raw.map(|raw| Figures::ratio(&runs, raw)),
            to_compared: compared.map(|compared| Figures::ratio(&runs, compared)),
            runs,
        })
    }
}

impl Report {
    /// Creates the report of an experiment with `arguments`.
    pub(super) fn new(
        arguments: &DurableArguments,
        measurements: Vec<Measurement>,
        compared_with: Option<String>,
        notes: Vec<String>,
    ) -> Self {
        let directory = arguments.subjects.parent_directory().cloned();
        let directory = directory.unwrap_or_else(std::env::temp_dir);
        Self {
            schema: 1,
            command: command(),
            measured_at: now(),
            length: arguments.length(Part::Synced),
            fillseq_length: arguments.length(Part::FillSeq),
            runs: arguments.runs,
            neighbour: arguments.neighbour,
            compared_with,
            environment: environment(&directory).into_iter().collect(),
            notes,
            measurements,
        }
    }

    fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |name| self.environment.get(name).map_or("unknown", String::as_str);
        writeln!(
            f,
            "Puts of {KEY_BYTES} B and {VALUE_BYTES} B, {} run(s); a measurement takes {}, of \
             fillseq {}.\nLinux {}, {} processors, {} ticks a second; {}, journal: {}; {}, fua: \
             {}, volatile write cache: {}.",
            self.runs,
            self.length.describe(),
            self.fillseq_length.describe(),
            value("kernel"),
            value("processors"),
            value("ticks_per_second"),
            value("filesystem"),
            value("journal"),
            value("device"),
            value("fua"),
            value("volatile_write_cache"),
        )?;
        if self.neighbour {
            writeln!(f, "A computing process keeps every processor busy.")?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "Note: {note}."))
    }

    /// Returns a table in Markdown with the medians.
    fn medians(&self) -> Result<String, fmt::Error> {
        let compared = self.compared_with.iter().map(|label| format!("|to {label}>"));
        let columns = Figure::columns(&FIGURES) + &compared.collect::<String>();
        let mut table = Table::new(&format!("part<|writers>|<{columns}"));
        for measurement in &self.measurements {
            let Measurement { task, label, .. } = measurement;
            let value = serde_json::to_value(measurement).map_err(|_| fmt::Error)?;
            let mut cells = vec![task.part.name(), task.writers.to_string(), label.clone()];
            cells.extend(FIGURES.iter().map(|figure| figure.cell(&value)));
            cells.extend(self.compared_with.iter().map(|_| TO_COMPARED.cell(&value)));
            table.row(cells);
        }
        Ok(table.markdown())
    }
}

/// The columns of figures, with their places in a serialised [`Measurement`].
pub(super) const FIGURES: [Figure; 8] = [
    Figure::new("writes/s>", "/median/per_second", rate),
    Figure::new("mean us>", "/median/mean_us", micros),
    Figure::new("p50 us>", "/median/p50_us", micros),
    Figure::new("p99 us>", "/median/p99_us", micros),
    Figure::new("p99.9 us>", "/median/p999_us", micros),
    Figure::new("p99.99 us>", "/median/p9999_us", micros),
    Figure::new("over 3 ms>", "/median/over_3_ms", |share| format!("{:.2} %", 100.0 * share)),
    Figure::new("to raw>", "/to_raw", ratio),
];

const TO_COMPARED: Figure = Figure::new("", "/to_compared", ratio);

fn ratio(ratio: f64) -> String {
    format!("{ratio:.2}")
}

/// Formats a table in Markdown with the medians, followed by a list of the rates in every run.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        writeln!(f, "\nMedians; ratios are medians of those within a run:\n")?;
        writeln!(f, "{}\nWrites per second in every run:\n", self.medians()?)?;
        for Measurement { task, label, runs, .. } in &self.measurements {
            let rates: Vec<_> = runs.iter().map(|run| rate(run.per_second)).collect();
            writeln!(f, "- {} {} {label}: {}", task.part.name(), task.writers, rates.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::arguments::tests::typed;
    use super::super::raw::Raw;
    use super::*;
    use crate::workloads::puts::figures::tests::at_rate;

    #[test]
    fn a_table_has_medians_ratios_and_every_run() {
        let row = Row { label: "raw dsync".to_owned(), writes: Writes::Raw(Raw::Dsync) };
        let task = Task { part: Part::Synced, writers: 4 };
        let (raw, ours) = ([1000.0, 4000.0].map(at_rate), [900.0, 2000.0].map(at_rate));
        let measured = Measurement::new(task, &row, ours.to_vec(), Some(&raw), None).unwrap();
        let arguments = typed(&["--neighbour"]).unwrap();
        let report = Report::new(&arguments, vec![measured], Some("x".to_owned()), Vec::new());
        let text = report.to_string();
        assert!(text.contains("A computing process"), "{text}");
        assert!(text.contains("| synced | 4 | raw dsync | 1.45k |"), "{text}");
        assert!(text.contains("| 0.00 % | 0.70 | - |"), "{text}");
        assert!(text.contains("- synced 4 raw dsync: 900, 2.00k"), "{text}");
        let json = serde_json::to_value(&report).unwrap();
        let measured = &json["measurements"][0];
        assert_eq!((&measured["part"], &measured["writers"]), (&"synced".into(), &4.into()));
        assert_eq!(measured["runs"].as_array().map(Vec::len), Some(2));
        assert!(measured["median"]["p999_us"].is_number() && json["environment"].is_object());
    }
}
