//! The workloads of `db_bench`, run on several engines in turn.

use clap::Args;
use tailwater_latency::files::Temporary;
use tailwater_latency::say;

use crate::engine::{Engine, Subject};
use crate::report::Report;
use crate::store::Failure;
use crate::subjects::Subjects;
use crate::workloads::basket::{Amount, Workload};

/// The command's arguments.
#[derive(Debug, Args)]
pub struct BasketArguments {
    /// Number of entries to put.
    #[arg(long, default_value_t = 2_000_000)]
    num: u64,
    /// Number of gets. The number of seeks is the same.
    #[arg(long, default_value_t = 1_000_000)]
    reads: u64,
    /// Length of values in bytes; keys have 16 bytes.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=1 << 20))]
    value_size: u32,
    /// Number of times that every workload is run.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Comma-separated list of workloads; their prerequisites also run, but are not reported.
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<String>,
    #[command(flatten)]
    subjects: Subjects,
}

impl BasketArguments {
    /// Runs the command; returns a report.
    pub(crate) fn run(&self, known: &[&dyn Engine]) -> Result<String, Failure> {
        let engines = self.subjects.engines(known)?;
        let workloads = self.chosen_workloads()?;
        let names = engines.iter().map(|engine| engine.name()).collect();
        let mut report = Report::new(names, self.rounds);
        for round in 0..self.rounds {
            Round { arguments: self, engines: &engines, round }.run(&workloads, &mut report)?;
        }
        Ok(report.to_string())
    }

    fn chosen_workloads(&self) -> Result<Vec<Workload>, Failure> {
        if self.workloads.is_empty() {
            return Ok(Workload::ALL.to_vec());
        }
        let names = Workload::ALL.map(Workload::name).join(", ");
        for name in &self.workloads {
            if !Workload::ALL.iter().any(|workload| workload.name() == name) {
                return Err(format!("no workload '{name}'; there are: {names}").into());
            }
        }
        let is_chosen = |workload: &Workload| self.workloads.iter().any(|n| n == workload.name());
        Ok(Workload::ALL.into_iter().filter(is_chosen).collect())
    }
}

/// One round: all workloads on all engines in turn.
struct Round<'a> {
    arguments: &'a BasketArguments,
    engines: &'a [&'a dyn Engine],
    round: usize,
}

/// An engine's database and its directory, which is removed after the database is closed.
struct OpenDatabase {
    subject: Box<dyn Subject>,
    _directory: Temporary,
}

impl Round<'_> {
    fn run(&self, chosen: &[Workload], report: &mut Report) -> Result<(), Failure> {
        let mut places: Vec<Option<OpenDatabase>> = self.engines.iter().map(|_| None).collect();
        for workload in self.needed(chosen) {
            for turn in 0..self.engines.len() {
                // The engine that goes first changes from round to round.
                let index = (turn + self.round) % self.engines.len();
                if workload.begins_anew() {
                    places[index] = None;
                    places[index] = Some(self.create(self.engines[index])?);
                }
                let Some(place) = &places[index] else { continue };
                let rate = self.measure(place, workload, index)?;
                if chosen.contains(&workload) {
                    report.add(workload, index, rate);
                }
            }
        }
        Ok(())
    }

    /// Returns the chosen workloads and their prerequisites.
    fn needed(&self, chosen: &[Workload]) -> Vec<Workload> {
        let reads = chosen.iter().any(|workload| *workload > Workload::FillRandom);
        let is_needed = |workload: &Workload| {
            let prepares = matches!(workload, Workload::FillRandom | Workload::Compact);
            chosen.contains(workload) || (reads && prepares)
        };
        Workload::ALL.into_iter().filter(is_needed).collect()
    }

    fn create(&self, engine: &dyn Engine) -> Result<OpenDatabase, Failure> {
        let directory = self.arguments.subjects.new_directory()?;
        let subject = engine
            .create(directory.path(), &self.arguments.subjects.options())
            .map_err(|error| format!("{}: {error}", engine.name()))?;
        Ok(OpenDatabase { subject, _directory: directory })
    }

    fn measure(
        &self,
        place: &OpenDatabase,
        workload: Workload,
        index: usize,
    ) -> Result<f64, Failure> {
        let name = self.engines[index].name();
        let amount = Amount {
            entries: self.arguments.num,
            reads: self.arguments.reads,
            value_bytes: self.arguments.value_size as usize,
        };
        let failed = |error: Failure| format!("{name}, {}: {error}", workload.name());
        let measured =
            place.subject.run(workload, &amount, self.round as u64 + 1).map_err(failed)?;
        let rate = measured.rate();
        say!("round {}  {:<16} {name:<10} {rate:>12.0}/s", self.round + 1, workload.name());
        place.subject.settle().map_err(failed)?;
        Ok(rate)
    }
}
