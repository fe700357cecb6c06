//! Runs all measurements, one after the other.

use std::path::Path;

use rustix::fs::{Mode, OFlags};
use tailwater_latency::experiment::turns;
use tailwater_latency::live::Steps;
use tailwater_latency::numbers::{micros, rate};
use tailwater_latency::say;

use super::arguments::{DurableArguments, Part};
use super::neighbour::Neighbours;
use super::raw::Raw;
use super::report::{Measurement, Report};
use super::rows::{Row, Writes, reference};
use super::task::Task;
use crate::store::{Engine, Failure};
use crate::workloads::puts::{Figures, Length, put};

/// All requested measurements.
pub(super) struct Experiment<'a, 'e> {
    arguments: &'a DurableArguments,
    rows: Vec<Row<'e>>,
    tasks: Vec<Task>,
    notes: Vec<String>,
}

impl<'a, 'e> Experiment<'a, 'e> {
    /// Creates the experiment that the arguments request, and tries each row of the report (raw
    /// writes, or an engine with its options) with a single write. If the filesystem does not
    /// support direct I/O, raw writes are omitted, and the report says so.
    ///
    /// # Errors
    /// The error of the first row whose write fails. It names the argument that requests the row.
    pub(super) fn new(
        arguments: &'a DurableArguments,
        known: &'e [Engine],
    ) -> Result<Self, Failure> {
        let (rows, tasks) = (Row::all(arguments, known)?, Task::all(arguments));
        let mut experiment = Self { arguments, rows, tasks, notes: Vec::new() };
        let scratch = arguments.subjects.new_directory()?;
        if !Raw::is_possible_in(scratch.path())? {
            experiment.rows.retain(|row| !row.is_raw());
            experiment
                .notes
                .push("no raw writes: the filesystem does not support direct I/O".to_owned());
        }
        for row in &experiment.rows {
            experiment.try_out(row)?;
        }
        Ok(experiment)
    }

    fn try_out(&self, row: &Row<'_>) -> Result<(), Failure> {
        let task = Task { part: Part::Synced, writers: 1 };
        let tried = self.measure(row, task, Length::Writes(1)).map(|_| ());
        let by = row.requested_by();
        tried.map_err(|error| format!("{}: {error} (requested by {by})", row.label).into())
    }

    /// Measures everything, and prints its progress on standard error.
    pub(super) fn run(self) -> Result<Report, Failure> {
        let neighbours = self.arguments.neighbour.then(Neighbours::start).transpose();
        let _neighbours = neighbours.map_err(|error| format!("--neighbour: {error}"))?;
        let mut measurements: Vec<Vec<Vec<Figures>>> =
            self.tasks.iter().map(|_| vec![Vec::new(); self.rows.len()]).collect();
        let rows_of = |task: &Task| self.rows.iter().filter(|row| task.has(row)).count();
        let count = self.tasks.iter().map(rows_of).sum::<usize>() * self.arguments.runs;
        let mut steps = Steps::new(count);
        for run in 0..self.arguments.runs {
            for (&task, measured) in self.tasks.iter().zip(&mut measurements) {
                for index in turns(self.rows.len(), run) {
                    let row = &self.rows[index];
                    if task.has(row) {
                        measured[index].push(self.measure_in(row, task, run, &mut steps)?);
                    }
                }
            }
        }
        self.report(measurements)
    }

    fn measure_in(
        &self,
        row: &Row<'_>,
        task: Task,
        run: usize,
        steps: &mut Steps,
    ) -> Result<Figures, Failure> {
        let Task { part, writers } = task;
        let live = steps.next(&format!("{} {writers} writers {}", part.name(), row.label));
        let figures = self
            .measure(row, task, self.arguments.length(part))
            .map_err(|error| format!("{}, {}: {error}", row.label, part.name()))?;
        drop(live);
        say!(
            "run {}  {:<8} {writers:>4} writers  {:<28} {:>8}/s  p50 {:>6} us",
            run + 1,
            part.name(),
            row.label,
            rate(figures.per_second),
            micros(figures.p50_us),
        );
        Ok(figures)
    }

    fn measure(&self, row: &Row<'_>, task: Task, length: Length) -> Result<Figures, Failure> {
        let directory = self.arguments.subjects.new_directory()?;
        write_everything_back(directory.path())?;
        match &row.writes {
            Writes::Raw(raw) => raw.write(directory.path(), task.writers, length),
            Writes::Engine { engine, options, .. } => {
                put(&*(engine.open)(directory.path(), options)?, &task.putting(length))
            }
        }
    }

    fn report(self, measured: Vec<Vec<Vec<Figures>>>) -> Result<Report, Failure> {
        let raw = self.rows.iter().find(|row| row.is_raw()).map(|row| row.label.as_str());
        let reference = reference(&self.rows);
        let mut measurements = Vec::new();
        for (&task, measured) in self.tasks.iter().zip(&measured) {
            let rows = || self.rows.iter().zip(measured).filter(|(row, _)| task.has(row));
            let runs_of = |label: Option<&str>| {
                let found = rows().find(|(row, _)| Some(row.label.as_str()) == label);
                found.map(|(_, runs)| runs.as_slice())
            };
            let (raw, reference) = (runs_of(raw), runs_of(reference));
            for (row, runs) in rows() {
                measurements.push(Measurement::new(task, row, runs.clone(), raw, reference)?);
            }
        }
        let reference = reference.map(str::to_owned);
        Ok(Report::new(self.arguments, measurements, reference, self.notes))
    }
}

/// Writes back the filesystem's dirty data, so that the writeback of one measurement's data does
/// not slow down the next measurement.
fn write_everything_back(directory: &Path) -> Result<(), Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(directory, flags, Mode::empty())?;
    Ok(rustix::fs::syncfs(&directory)?)
}
