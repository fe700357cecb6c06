//! Overlapping range deletions on several engines; the module `workloads::range_deletions`
//! describes the measurements.

use std::fmt::Write as _;

use clap::Args;
use tailwater_latency::numbers::{Rate, median};
use tailwater_latency::parsing::at_least_one;

use crate::engine::Engine;
use crate::store::Failure;
use crate::subjects::Subjects;
use crate::workloads::range_deletions::{Deleting, Figures};

/// Engines with range deletions.
const ENGINES: [&str; 2] = ["tailwater", "rocksdb"];
/// The command's arguments.
#[derive(Debug, Args)]
pub struct RangeDeletionArguments {
    /// Number of ranges to delete, each of 50 keys.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    deletions: u64,
    /// Number of gets.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    reads: u64,
    /// Number of repetitions of the whole measurement.
    #[arg(long, default_value_t = 3, value_parser = at_least_one)]
    rounds: usize,
    #[command(flatten)]
    subjects: Subjects,
}

/// A row of the report: its figure, and the way in which the figure is printed.
struct Row {
    name: &'static str,
    by_turns: bool,
    figure: fn(&Figures) -> f64,
    text: fn(f64) -> String,
}

const ROWS: [Row; 6] = [
    Row {
        name: "deletions per second",
        by_turns: false,
        figure: |it| it.deletions,
        text: |rate| Rate(rate).to_string(),
    },
    Row {
        name: "deletions per second, alternating with gets",
        by_turns: true,
        figure: |it| it.deletions,
        text: |rate| Rate(rate).to_string(),
    },
    Row {
        name: "gets per second",
        by_turns: false,
        figure: |it| it.gets,
        text: |rate| Rate(rate).to_string(),
    },
    Row {
        name: "scan of the remaining keys, ms",
        by_turns: false,
        figure: |it| it.scan_s,
        text: |seconds| format!("{:.1}", seconds * 1e3),
    },
    Row {
        name: "flush, ms",
        by_turns: false,
        figure: |it| it.flush_s,
        text: |seconds| format!("{:.1}", seconds * 1e3),
    },
    Row {
        name: "flushed bytes",
        by_turns: false,
        figure: |it| it.flushed_bytes,
        text: |bytes| format!("{bytes:.0}"),
    },
];

impl RangeDeletionArguments {
    /// Runs the command; returns a table.
    pub(crate) fn run(&self, known: &[&dyn Engine]) -> Result<String, Failure> {
        let engines = self.subjects.engines_or(known, &ENGINES)?;
        // Figures of all rounds. The first index is 1 if deletions and gets alternate, else 0; the
        // second index is the engine.
        let mut figures = [vec![Vec::new(); engines.len()], vec![Vec::new(); engines.len()]];
        for round in 0..self.rounds {
            for turn in 0..engines.len() {
                // Each round starts with another engine.
                let index = (turn + round) % engines.len();
                for by_turns in [false, true] {
                    let engine = engines[index];
                    let figure = self.measure(engine, by_turns);
                    let figure = figure.map_err(|error| format!("{}: {error}", engine.name()))?;
                    figures[usize::from(by_turns)][index].push(figure);
                }
            }
        }
        self.table(&engines, &figures)
    }

    fn measure(&self, engine: &dyn Engine, by_turns: bool) -> Result<Figures, Failure> {
        let directory = self.subjects.new_directory()?;
        let subject = engine.create(directory.path(), &self.subjects.options())?;
        let Self { deletions, reads, .. } = *self;
        subject.delete_ranges(&Deleting { deletions, reads, by_turns })
    }

    fn table(
        &self,
        engines: &[&dyn Engine],
        figures: &[Vec<Vec<Figures>>; 2],
    ) -> Result<String, Failure> {
        let (rounds, deletions) = (self.rounds, self.deletions);
        let mut table = format!("{deletions} range deletions, medians of {rounds} rounds:\n\n| |");
        engines.iter().try_for_each(|engine| write!(table, " {} |", engine.name()))?;
        let columns = "---:|".repeat(engines.len());
        writeln!(table, "\n|---|{columns}")?;
        for row in &ROWS {
            write!(table, "| {} |", row.name)?;
            for rounds in &figures[usize::from(row.by_turns)] {
                let median = median(rounds.iter().map(row.figure).collect());
                write!(table, " {} |", (row.text)(median))?;
            }
            writeln!(table)?;
        }
        table.push_str("\nEvery run:\n\n");
        for row in &ROWS {
            for (engine, rounds) in engines.iter().zip(&figures[usize::from(row.by_turns)]) {
                let all: Vec<_> = rounds.iter().map(|it| (row.text)((row.figure)(it))).collect();
                writeln!(table, "- {}, {}: {}", row.name, engine.name(), all.join(", "))?;
            }
        }
        Ok(table)
    }
}
