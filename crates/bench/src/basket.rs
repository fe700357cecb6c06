//! The workloads of `db_bench`, run on several engines in turn.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use serde_json::json;
use tailwater_latency::experiment::{Finished, Table, turns};
use tailwater_latency::files::Temporary;
use tailwater_latency::numbers::{median, rate};
use tailwater_latency::parsing::at_least_one;
use tailwater_latency::say;

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
    #[command(flatten)]
    subjects: Subjects,
}

/// Operations per second by workload, then engine, then round.
type Rates = BTreeMap<Workload, Vec<Vec<f64>>>;

impl BasketArguments {
    /// Runs the command.
    pub(crate) fn run(&self, known: &[Engine]) -> Result<Finished, Failure> {
        let engines = self.subjects.engines(known)?;
        let workloads = self.chosen_workloads()?;
        let mut rates: Rates =
            workloads.iter().map(|&workload| (workload, vec![Vec::new(); engines.len()])).collect();
        for round in 0..self.rounds {
            Round { arguments: self, engines: &engines, round }.run(&mut rates)?;
        }
        let names: Vec<_> = engines.iter().map(|engine| engine.name).collect();
        report(&names, self.rounds, &rates)
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

/// One round: all workloads on all engines in turn.
struct Round<'a> {
    arguments: &'a BasketArguments,
    engines: &'a [&'a Engine],
    round: usize,
}

/// An engine's database and its directory, which is removed after the database is closed.
struct OpenDatabase {
    store: Box<dyn Store>,
    _directory: Temporary,
}

impl Round<'_> {
    fn run(&self, rates: &mut Rates) -> Result<(), Failure> {
        let mut places: Vec<Option<OpenDatabase>> = self.engines.iter().map(|_| None).collect();
        let reads = rates.keys().any(|workload| *workload > Workload::FillRandom);
        for &workload in Workload::value_variants() {
            let prepares = matches!(workload, Workload::FillRandom | Workload::Compact);
            let is_needed = rates.contains_key(&workload) || (reads && prepares);
            if !is_needed {
                continue;
            }
            for index in turns(self.engines.len(), self.round) {
                if workload.begins_anew() {
                    places[index] = None;
                    places[index] = Some(self.create(self.engines[index])?);
                }
                let Some(place) = &places[index] else { continue };
                let rate = self.measure(place, workload)?;
                if let Some(rates) = rates.get_mut(&workload) {
                    rates[index].push(rate);
                }
            }
        }
        Ok(())
    }

    fn create(&self, engine: &Engine) -> Result<OpenDatabase, Failure> {
        let directory = self.arguments.subjects.new_directory()?;
        let store = (engine.open)(directory.path(), &self.arguments.subjects.options())
            .map_err(|error| format!("{}: {error}", engine.name))?;
        Ok(OpenDatabase { store, _directory: directory })
    }

    fn measure(&self, place: &OpenDatabase, workload: Workload) -> Result<f64, Failure> {
        let (store, name) = (&*place.store, place.store.name());
        let amount = Amount {
            entries: self.arguments.num,
            reads: self.arguments.reads,
            value_bytes: self.arguments.value_size as usize,
        };
        let failed = |error: Failure| format!("{name}, {}: {error}", workload.name());
        let seed = self.round as u64 + 1;
        let rate = basket::run(store, workload, &amount, seed).map_err(failed)?;
        say!("round {}  {:<16} {name:<10} {rate:>12.0}/s", self.round + 1, workload.name());
        store.settle().map_err(failed)?;
        Ok(rate)
    }
}

/// Formats a table in Markdown, followed by the rates of every run. For each workload the table has
/// the median rate of each engine, and the ratio of the first engine's rate to that of each other
/// engine. The ratio is computed in each round, so that a disturbance during the round affects both
/// rates; the table shows the median over the rounds.
fn report(engines: &[&str], rounds: usize, rates: &Rates) -> Result<Finished, Failure> {
    let ratios = engines.iter().skip(1).map(|engine| format!("to {engine}"));
    let columns = engines.iter().map(|&engine| engine.to_owned()).chain(ratios);
    let columns: String = columns.map(|column| format!("|{column}>")).collect();
    let mut table = Table::new(&format!("workload<{columns}"));
    let (mut every_run, mut result) = (String::new(), Vec::new());
    for (workload, of_engines) in rates {
        let medians = of_engines.iter().map(|rates| rate(median(rates.clone())));
        let ratios = of_engines.iter().skip(1).map(|other| {
            let ratios = of_engines[0].iter().zip(other).map(|(first, other)| first / other);
            format!("{:.2}", median(ratios.collect()))
        });
        table.row([workload.name()].into_iter().chain(medians).chain(ratios));
        for (engine, rates) in engines.iter().zip(of_engines) {
            let runs: Vec<String> = rates.iter().copied().map(rate).collect();
            every_run += &format!("- {} {engine}: {}\n", workload.name(), runs.join(", "));
            result.push(json!({"workload": workload.name(), "engine": engine, "runs": rates}));
        }
    }
    let table = table.markdown();
    let text = format!(
        "Operations per second, medians of {rounds} rounds:\n\n{table}\nEvery run:\n\n{every_run}"
    );
    Finished::new(text, &result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios_are_of_rounds() {
        let rates = vec![vec![200e3, 900e3, 100e3], vec![100e3, 300e3, 400e3]];
        let rates = Rates::from([(Workload::ReadRandom, rates)]);
        let text = report(&["ours", "theirs"], 3, &rates).unwrap().text;
        assert!(text.contains("| readrandom | 200k | 300k | 2.00 |"), "{text}");
        assert!(text.contains("- readrandom theirs: 100k, 300k, 400k"), "{text}");
    }
}
