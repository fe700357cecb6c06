//! The report of a run.

use std::collections::BTreeMap;
use std::fmt;

use tailwater_latency::numbers::{Rate, median};

use crate::workloads::basket::Workload;

/// The rates of several engines in several rounds.
///
/// It is printed as a table in Markdown, followed by the rates of every run. For each workload the
/// table has the median rate of each engine, and the ratio of the first engine's rate to that of
/// each other engine. The ratio is computed in each round, so that a disturbance during the round
/// affects both rates; the table shows the median over the rounds.
#[derive(Debug)]
pub(crate) struct Report {
    engines: Vec<&'static str>,
    rounds: usize,
    /// Operations per second by workload, then engine (in the order of `engines`), then round.
    rates: BTreeMap<Workload, Vec<Vec<f64>>>,
}

impl Report {
    /// Creates an empty report.
    pub(crate) fn new(engines: Vec<&'static str>, rounds: usize) -> Self {
        Self { engines, rounds, rates: BTreeMap::new() }
    }

    /// Adds the rate of one run, in operations per second.
    pub(crate) fn add(&mut self, workload: Workload, engine: usize, rate: f64) {
        let count = self.engines.len();
        self.rates.entry(workload).or_insert_with(|| vec![Vec::new(); count])[engine].push(rate);
    }

    fn write_medians(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| workload |")?;
        for engine in &self.engines {
            write!(f, " {engine} |")?;
        }
        let others = self.engines.iter().skip(1);
        for engine in others.clone() {
            write!(f, " to {engine} |")?;
        }
        write!(f, "\n|---|")?;
        for _ in self.engines.iter().chain(others) {
            write!(f, "---:|")?;
        }
        writeln!(f)?;
        for (workload, engines) in &self.rates {
            write!(f, "| {} |", workload.name())?;
            for rates in engines {
                write!(f, " {} |", Rate(median(rates.clone())))?;
            }
            for other in engines.iter().skip(1) {
                let ratios = engines[0].iter().zip(other).map(|(first, other)| first / other);
                write!(f, " {:.2} |", median(ratios.collect()))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Operations per second, medians of {} rounds:\n", self.rounds)?;
        self.write_medians(f)?;
        writeln!(f, "\nEvery run:\n")?;
        for (workload, engines) in &self.rates {
            for (engine, rates) in self.engines.iter().zip(engines) {
                let rates: Vec<String> = rates.iter().map(|rate| Rate(*rate).to_string()).collect();
                writeln!(f, "- {} {engine}: {}", workload.name(), rates.join(", "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios_are_of_rounds() {
        let mut report = Report::new(vec!["ours", "theirs"], 3);
        for (ours, theirs) in [(200e3, 100e3), (900e3, 300e3), (100e3, 400e3)] {
            report.add(Workload::ReadRandom, 0, ours);
            report.add(Workload::ReadRandom, 1, theirs);
        }
        let text = report.to_string();
        assert!(text.contains("| readrandom | 200k | 300k | 2.00 |"), "{text}");
        assert!(text.contains("- readrandom theirs: 100k, 300k, 400k"), "{text}");
    }
}
