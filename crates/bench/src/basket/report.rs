//! The results: `report.json`, a table, and the report for a reader.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tailwater_latency::Failure;
use tailwater_latency::experiment::Table;
use tailwater_latency::numbers::{median, rate};
use tailwater_latency::report::{Body, Compared, Document, Dot, Dots, Hue, Part, facts};

/// All results.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    /// Version of the report's fields; it changes when the meaning of a field changes.
    pub(super) schema: u32,
    /// The command line, and when the experiment ended.
    pub(super) command: String,
    pub(super) measured_at: String,
    pub(super) parameters: Parameters,
    /// Properties of the system and the device, by name.
    pub(super) environment: BTreeMap<String, String>,
    /// The engines; the first is compared with the others.
    pub(super) engines: Vec<String>,
    pub(super) workloads: Vec<Row>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Parameters {
    pub(super) num: u64,
    pub(super) reads: u64,
    pub(super) value_size: u32,
    pub(super) rounds: usize,
    pub(super) options: String,
}

/// A workload.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) workload: String,
    /// Operations per second, by engine and then by round.
    pub(super) rates: Vec<Vec<f64>>,
}

impl Row {
    /// Returns the rate of the first engine divided by that of another engine, in each round, so
    /// that a disturbance during a round affects both rates.
    fn ratios(&self, other: usize) -> Vec<f64> {
        self.rates[0].iter().zip(&self.rates[other]).map(|(first, other)| first / other).collect()
    }
}

impl Report {
    /// Returns the table: for each workload, the median rate of each engine, and the median over
    /// the rounds of the ratio of the first engine's rate to that of each other engine.
    fn table(&self) -> Table {
        let ratios = self.engines.iter().skip(1).map(|engine| format!("|to {engine}>"));
        let columns = self.engines.iter().map(|engine| format!("|{engine}>")).chain(ratios);
        let mut table = Table::new(&format!("workload<{}", columns.collect::<String>()));
        for row in &self.workloads {
            let medians = row.rates.iter().map(|rates| rate(median(rates.clone())));
            let ratios = (1..self.engines.len()).map(|other| ratio(median(row.ratios(other))));
            table.row([row.workload.clone()].into_iter().chain(medians).chain(ratios));
        }
        table
    }

    /// Returns the table in Markdown, followed by the rates of every run.
    pub(super) fn text(&self) -> String {
        let mut every_run = String::new();
        for Row { workload, rates } in &self.workloads {
            for (engine, rates) in self.engines.iter().zip(rates) {
                let rates: Vec<String> = rates.iter().copied().map(rate).collect();
                every_run += &format!("- {workload} {engine}: {}\n", rates.join(", "));
            }
        }
        format!(
            "Operations per second, medians of {} rounds:\n\n{}\nEvery run:\n\n{every_run}",
            self.parameters.rounds,
            self.table().markdown(),
        )
    }

    /// Returns what is shown in the picture: the ratios to the other engines, or the rates of the
    /// only engine.
    fn dots(&self) -> Dots {
        if self.engines.len() < 2 {
            let dot = |row: &Row| dot(row.workload.clone(), 0, row.rates[0].clone());
            return Dots {
                axis: "operations per second".to_owned(),
                format: rate,
                reference: None,
                rows: self.workloads.iter().map(dot).collect(),
            };
        }
        let rows = (1..self.engines.len()).flat_map(|other| {
            self.workloads.iter().map(move |row| {
                let label = format!("{} to {}", row.workload, self.engines[other]);
                dot(label, other - 1, row.ratios(other))
            })
        });
        Dots {
            axis: format!("rate of {} divided by that of the other engine", self.engines[0]),
            format: ratio,
            reference: Some(1.0),
            rows: rows.collect(),
        }
    }

    fn headline(&self) -> String {
        let sentence = |other: usize| {
            let ratios = self.workloads.iter().map(|row| median(row.ratios(other)));
            let mut ratios: Vec<f64> = ratios.collect();
            ratios.sort_by(f64::total_cmp);
            let faster = ratios.iter().filter(|ratio| **ratio > 1.0).count();
            format!(
                "than {} in {faster} of {} workloads (ratios from {} to {})",
                self.engines[other],
                ratios.len(),
                ratio(ratios[0]),
                ratio(ratios[ratios.len() - 1]),
            )
        };
        let sentences: Vec<String> = (1..self.engines.len()).map(sentence).collect();
        match &sentences[..] {
            [] => format!("Operations per second of {}.", self.engines[0]),
            sentences => format!("{} is faster {}.", self.engines[0], sentences.join(", ")),
        }
    }
}

fn ratio(ratio: f64) -> String {
    format!("{ratio:.2}")
}

fn dot(label: String, hue: usize, mut runs: Vec<f64>) -> Dot {
    let middle = median(runs.clone());
    runs.sort_by(f64::total_cmp);
    Dot { label, hue: Hue(hue), values: [runs[0], middle, runs[runs.len() - 1]] }
}

/// Describes the report of an experiment, given its JSON.
pub(super) fn document(report: &Value) -> Result<Document, Failure> {
    let wrong = |error| format!("not a report of `basket`: {error}");
    let read: Report = serde_json::from_value(report.clone()).map_err(wrong)?;
    let is_complete = |row: &Row| {
        row.rates.len() == read.engines.len() && row.rates.iter().all(|rates| !rates.is_empty())
    };
    if read.workloads.is_empty() || !read.workloads.iter().all(is_complete) {
        return Err("a report of `basket` without results of each engine".into());
    }
    let text = "A dot is the median of the rounds, its line their spread.";
    let mut parts = vec![Part::new("", text, Body::Dots(read.dots()))];
    let text = "Operations per second and ratios; medians of the rounds.";
    let tables = vec![(String::new(), read.table())];
    parts.push(Part::new("All workloads", text, Body::Tables(tables)));
    parts.extend(facts::parts(report));
    let compared = read.workloads.iter().map(|row| {
        let middle = median(row.rates[0].clone());
        let figures = vec![("operations/s", middle, rate(middle))];
        Compared { label: format!("{} {}", read.engines[0], row.workload), figures }
    });
    Ok(Document {
        title: "db_bench's workloads".to_owned(),
        headline: read.headline(),
        compared: compared.collect(),
        parts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let rates = vec![vec![200e3, 900e3, 100e3], vec![100e3, 300e3, 400e3]];
        Report {
            schema: 1,
            command: "basket".to_owned(),
            measured_at: "now".to_owned(),
            parameters: Parameters { rounds: 3, ..Parameters::default() },
            environment: BTreeMap::new(),
            engines: ["ours", "theirs"].map(str::to_owned).into(),
            workloads: vec![Row { workload: "readrandom".to_owned(), rates }],
        }
    }

    #[test]
    fn medians_and_ratios_are_of_rounds() {
        let text = report().text();
        assert!(text.contains("| readrandom | 200k | 300k | 2.00 |"), "{text}");
        assert!(text.contains("- readrandom theirs: 100k, 300k, 400k"), "{text}");
    }

    #[test]
    fn the_report_shows_ratios_with_their_spread() {
        let document = document(&serde_json::to_value(report()).unwrap()).unwrap();
        assert!(document.headline.contains("than theirs in 1 of 1"), "{}", document.headline);
        let Body::Dots(dots) = &document.parts[0].body else { panic!("no dots") };
        assert_eq!(dots.rows[0].values, [0.25, 2.0, 3.0]);
    }
}
