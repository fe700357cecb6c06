//! The command line, and the run it asks for.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tempfile::TempDir;

use crate::basket::{Amount, Engine, Subject, Workload};
use crate::report::Report;
use crate::store::Failure;

/// The options that all engines of RocksDB's kind are opened with.
pub const OPTIONS: &str = "\
    create_if_missing=true;max_background_jobs=2;max_open_files=-1;\
    write_buffer_size=67108864;compression=kLZ4Compression;\
    block_based_table_factory={block_cache=1073741824;filter_policy=bloomfilter:10:false}";

/// Runs db_bench's workloads and prints operations per second: every run, and the medians.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Arguments {
    /// How many entries are put.
    #[arg(long, default_value_t = 2_000_000)]
    num: u64,
    /// How many gets and seeks are made.
    #[arg(long, default_value_t = 1_000_000)]
    reads: u64,
    /// How long values are, in bytes; keys have 16.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=1 << 20))]
    value_size: u32,
    /// How many times over everything is done.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The options of the databases, as an option string.
    #[arg(long, default_value = OPTIONS)]
    options: String,
    /// Options over those.
    #[arg(long, default_value = "")]
    more_options: String,
    /// The workloads, with commas between; what they need first is done, and not reported.
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<String>,
    /// The engines, with commas between; all by default. The first is compared with the others.
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// Where databases are made, and removed; the system's directory for such by default.
    #[arg(long)]
    directory: Option<PathBuf>,
}

impl Arguments {
    /// Runs what was asked for on engines out of `known`, and prints the report.
    pub fn run(&self, known: &[&dyn Engine]) -> ExitCode {
        match self.measure(known) {
            Ok(report) => {
                print!("{report}");
                ExitCode::SUCCESS
            }
            Err(failure) => {
                eprintln!("error: {failure}");
                ExitCode::FAILURE
            }
        }
    }

    fn measure(&self, known: &[&dyn Engine]) -> Result<Report, Failure> {
        let engines = self.chosen_engines(known)?;
        let workloads = self.chosen_workloads()?;
        let names = engines.iter().map(|engine| engine.name()).collect();
        let mut report = Report::new(names, self.rounds);
        for round in 0..self.rounds {
            Round { arguments: self, engines: &engines, round }.run(&workloads, &mut report)?;
        }
        Ok(report)
    }

    fn chosen_engines<'a>(&self, known: &[&'a dyn Engine]) -> Result<Vec<&'a dyn Engine>, Failure> {
        if self.engines.is_empty() {
            return Ok(known.to_vec());
        }
        let names = known.iter().map(|engine| engine.name()).collect::<Vec<_>>().join(", ");
        let find = |name: &String| known.iter().copied().find(|engine| engine.name() == *name);
        self.engines
            .iter()
            .map(|name| {
                find(name).ok_or_else(|| format!("no engine '{name}'; there are: {names}").into())
            })
            .collect()
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

    fn options(&self) -> String {
        format!("{};{}", self.options, self.more_options)
    }
}

/// All workloads once on all engines.
struct Round<'a> {
    arguments: &'a Arguments,
    engines: &'a [&'a dyn Engine],
    round: usize,
}

/// An engine's database and where it is; it is removed after it was closed.
struct Place {
    subject: Box<dyn Subject>,
    _directory: TempDir,
}

impl Round<'_> {
    fn run(&self, chosen: &[Workload], report: &mut Report) -> Result<(), Failure> {
        let mut places: Vec<Option<Place>> = self.engines.iter().map(|_| None).collect();
        for workload in self.needed(chosen) {
            for turn in 0..self.engines.len() {
                // Each engine is the first one in turn.
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

    /// The chosen workloads and those that must come before them.
    fn needed(&self, chosen: &[Workload]) -> Vec<Workload> {
        let reads = chosen.iter().any(|workload| *workload > Workload::FillRandom);
        let is_needed = |workload: &Workload| {
            let prepares = matches!(workload, Workload::FillRandom | Workload::Compact);
            chosen.contains(workload) || (reads && prepares)
        };
        Workload::ALL.into_iter().filter(is_needed).collect()
    }

    fn create(&self, engine: &dyn Engine) -> Result<Place, Failure> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("tailwater-bench-");
        let directory = match &self.arguments.directory {
            Some(parent) => builder.tempdir_in(parent)?,
            None => builder.tempdir()?,
        };
        let subject = engine
            .create(directory.path(), &self.arguments.options())
            .map_err(|error| format!("{}: {error}", engine.name()))?;
        Ok(Place { subject, _directory: directory })
    }

    fn measure(&self, place: &Place, workload: Workload, index: usize) -> Result<f64, Failure> {
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
        eprintln!("round {}  {:<16} {name:<10} {rate:>12.0}/s", self.round + 1, workload.name());
        place.subject.settle().map_err(failed)?;
        Ok(rate)
    }
}
