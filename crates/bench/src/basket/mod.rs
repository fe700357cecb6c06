//! The workloads of `db_bench`, run on several engines in turn.

mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tailwater_latency::experiment::Earlier;
use tailwater_latency::experiment::{Finished, command, environment, now, turns};
use tailwater_latency::files::{Temporary, write_text};
use tailwater_latency::live::Steps;
use tailwater_latency::parsing::at_least_one;
use tailwater_latency::report::ReportFiles;
use tailwater_latency::say;

use self::report::{Parameters, Report, Row, document};

use crate::cold::{ColdEngine, Opened, Reading};
use crate::store::{Engine, Failure, Store};
use crate::subjects::Subjects;
use crate::workloads::basket::{self, Amount, Workload};

/// The command's arguments.
#[derive(Debug, Args)]
pub(crate) struct BasketArguments {
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
    #[arg(long, default_value_t = 3, value_parser = at_least_one)]
    rounds: usize,
    /// Comma-separated list of workloads; their prerequisites also run, but are not reported.
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<String>,
    /// Measure each engine that has the read option `async_io` with it, too.
    #[arg(long)]
    async_io: bool,
    /// Output directory of report.html, its picture report.svg, report.json and table.txt.
    #[arg(long, value_name = "DIR", default_value = "tailwater-basket")]
    out: PathBuf,
    #[command(flatten)]
    earlier: Earlier,
    #[command(flatten)]
    subjects: Subjects,
}

/// Operations per second by workload, then engine, then round.
type Rates = BTreeMap<Workload, Vec<Vec<f64>>>;

impl BasketArguments {
    /// Runs the command.
    pub(crate) fn run(&self, known: &[Engine], cold: &[ColdEngine]) -> Result<Finished, Failure> {
        if let Some(finished) = self.earlier.finish(document)? {
            return Ok(finished);
        }
        let files = ReportFiles::in_directory(&self.out)?;
        let engines = self.candidates(known, cold)?;
        let workloads = self.chosen_workloads()?;
        let mut rates: Rates =
            workloads.iter().map(|&workload| (workload, vec![Vec::new(); engines.len()])).collect();
        let needed = Workload::value_variants().iter().filter(|it| is_needed(&rates, **it));
        let mut steps = Steps::new(needed.count() * engines.len() * self.rounds);
        for round in 0..self.rounds {
            Round { arguments: self, engines: &engines, round }.run(&mut rates, &mut steps)?;
        }
        let report = self.report(&engines, rates);
        let text = report.text();
        write_text(&self.out.join("table.txt"), &text)?;
        Finished::recorded(text + "\n", &report, &files, document)
    }

    /// Returns the requested engines, followed by those that have `async_io` with that option, if
    /// this is requested.
    fn candidates<'a>(
        &self,
        known: &'a [Engine],
        cold: &'a [ColdEngine],
    ) -> Result<Vec<Candidate<'a>>, Failure> {
        let engines = self.subjects.engines(known)?;
        let plain = engines
            .into_iter()
            .map(|engine| Candidate { name: engine.name.to_owned(), open: Box::new(engine.open) });
        let is_wanted = |engine: &&ColdEngine| {
            self.async_io && engine.has_async_io && self.subjects.wants(engine.name)
        };
        let asynchronous = cold.iter().filter(is_wanted).map(|engine| Candidate {
            name: format!("{} async_io", engine.name),
            open: Box::new(|directory, options| {
                (engine.open)(directory, options, Reading { async_io: true, ..Reading::default() })
            }),
        });
        Ok(plain.chain(asynchronous).collect())
    }

    fn report(&self, engines: &[Candidate<'_>], rates: Rates) -> Report {
        let directory = self.subjects.parent_directory().cloned();
        let environment = environment(&directory.unwrap_or_else(std::env::temp_dir));
        let workloads = rates.into_iter();
        Report {
            schema: 1,
            command: command(),
            measured_at: now(),
            parameters: Parameters {
                num: self.num,
                reads: self.reads,
                value_size: self.value_size,
                rounds: self.rounds,
                options: self.subjects.options(),
            },
            environment: environment
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            engines: engines.iter().map(|engine| engine.name.clone()).collect(),
            workloads: workloads
                .map(|(workload, rates)| Row { workload: workload.name(), rates })
                .collect(),
        }
    }

    fn chosen_workloads(&self) -> Result<Vec<Workload>, Failure> {
        let all = Workload::value_variants();
        if self.workloads.is_empty() {
            return Ok(all.to_vec());
        }
        let names: Vec<_> = all.iter().map(|workload| workload.name()).collect();
        if let Some(unknown) = self.workloads.iter().find(|name| !names.contains(name)) {
            return Err(format!("no workload '{unknown}'; there are: {}", names.join(", ")).into());
        }
        let is_chosen = |workload: &Workload| self.workloads.contains(&workload.name());
        Ok(all.iter().copied().filter(is_chosen).collect())
    }
}

/// Returns whether a workload is to be measured, or prepares one that is.
fn is_needed(rates: &Rates, workload: Workload) -> bool {
    let reads = rates.keys().any(|workload| *workload > Workload::FillRandom);
    let prepares = matches!(workload, Workload::FillRandom | Workload::Compact);
    rates.contains_key(&workload) || (reads && prepares)
}

type Open<'a> = Box<dyn Fn(&Path, &str) -> Opened + 'a>;

/// An engine, with certain options of reads.
struct Candidate<'a> {
    name: String,
    /// Opens the database in a directory; see [`Engine::open`].
    open: Open<'a>,
}

/// One round: all workloads on all engines in turn.
struct Round<'a> {
    arguments: &'a BasketArguments,
    engines: &'a [Candidate<'a>],
    round: usize,
}

/// An engine's database and its directory, which is removed after the database is closed.
struct OpenDatabase {
    store: Box<dyn Store>,
    _directory: Temporary,
}

impl Round<'_> {
    fn run(&self, rates: &mut Rates, steps: &mut Steps) -> Result<(), Failure> {
        let mut places: Vec<Option<OpenDatabase>> = self.engines.iter().map(|_| None).collect();
        for &workload in Workload::value_variants() {
            if !is_needed(rates, workload) {
                continue;
            }
            for index in turns(self.engines.len(), self.round) {
                if workload.begins_anew() {
                    places[index] = None;
                    places[index] = Some(self.create(&self.engines[index])?);
                }
                let Some(place) = &places[index] else { continue };
                let rate = self.measure(&self.engines[index].name, place, workload, steps)?;
                if let Some(rates) = rates.get_mut(&workload) {
                    rates[index].push(rate);
                }
            }
        }
        Ok(())
    }

    fn create(&self, engine: &Candidate<'_>) -> Result<OpenDatabase, Failure> {
        let directory = self.arguments.subjects.new_directory()?;
        let store = (engine.open)(directory.path(), &self.arguments.subjects.options())
            .map_err(|error| format!("{}: {error}", engine.name))?;
        Ok(OpenDatabase { store, _directory: directory })
    }

    fn measure(
        &self,
        name: &str,
        place: &OpenDatabase,
        workload: Workload,
        steps: &mut Steps,
    ) -> Result<f64, Failure> {
        let store = &*place.store;
        let amount = Amount {
            entries: self.arguments.num,
            reads: self.arguments.reads,
            value_bytes: self.arguments.value_size as usize,
        };
        let failed = |error: Failure| format!("{name}, {}: {error}", workload.name());
        let seed = self.round as u64 + 1;
        let live = steps.next(&format!("{} {name}", workload.name()));
        let rate = basket::run(store, workload, &amount, seed).map_err(failed)?;
        drop(live);
        say!("round {}  {:<16} {name:<10} {rate:>12.0}/s", self.round + 1, workload.name());
        store.settle().map_err(failed)?;
        Ok(rate)
    }
}
