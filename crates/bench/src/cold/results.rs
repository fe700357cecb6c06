//! The rounds of measurements, their results, and the tables of these.

use serde::Serialize;
use serde_json::Value;
use tailwater_latency::experiment::{Figure, Measured, Table, turns};
use tailwater_latency::live::Steps;
use tailwater_latency::say;

use super::figures::Figures;
use super::rows::Row;
use crate::store::Failure;

/// Measures each row once in each round. `relate` sets the ratios of the rows of a round.
pub(super) fn measure_rounds<'d>(
    rows: Vec<Row<'d>>,
    rounds: usize,
    title: &str,
    mut measure: impl FnMut(u64, &Row<'d>) -> Result<Figures, Failure>,
    relate: impl Fn(&[Row<'d>], &mut [Figures]),
) -> Result<Vec<Measured<Row<'d>, Figures>>, Failure> {
    let mut steps = Steps::new(rows.len() * rounds);
    let mut runs: Vec<Vec<Figures>> = rows.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        let mut figures: Vec<Option<Figures>> = rows.iter().map(|_| None).collect();
        for index in turns(rows.len(), round) {
            let label = &rows[index].label;
            let live = steps.next(&format!("{title}: {label}"));
            let measured = measure(round as u64 + 1, &rows[index])
                .map_err(|error| format!("{title}: {label}: {error}"))?;
            drop(live);
            let (rate, p50) = (measured.per_second, measured.latencies.p50_us);
            say!("round {}  {title}: {label}  {rate:.0}/s  p50 {p50:.1} us", round + 1);
            figures[index] = Some(measured);
        }
        let mut figures: Vec<Figures> = figures.into_iter().flatten().collect();
        relate(&rows, &mut figures);
        for (runs, figures) in runs.iter_mut().zip(figures) {
            runs.push(figures);
        }
    }
    rows.into_iter().zip(runs).map(|(row, runs)| Measured::new(row, runs)).collect()
}

/// The results of a part of the benchmark.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    /// What was measured.
    pub(super) title: String,
    /// The columns of the table.
    #[serde(skip)]
    pub(super) columns: &'static [Figure],
    /// The rows as JSON, each with its field `label`.
    pub(super) rows: Vec<Value>,
}

impl Results {
    /// Creates the results from the measured rows.
    pub(super) fn new(
        title: String,
        columns: &'static [Figure],
        measured: &[Measured<Row<'_>, Figures>],
    ) -> Result<Self, Failure> {
        let rows = measured.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        Ok(Self { title, columns, rows })
    }

    /// Returns the title, the table of the medians in Markdown, and the first figure of every run.
    pub(super) fn text(&self) -> Result<String, Failure> {
        let mut table = Table::new(&format!("<{}", Figure::columns(self.columns)));
        let mut every_run = String::new();
        for row in &self.rows {
            let label = row["label"].as_str().unwrap_or_default();
            let cells = self.columns.iter().map(|figure| figure.cell(&row["median"]));
            table.row([label.to_owned()].into_iter().chain(cells));
            if let Some(first) = self.columns.first() {
                let runs = row["runs"].as_array().into_iter().flatten().map(|run| first.cell(run));
                every_run += &format!("- {label}: {}\n", runs.collect::<Vec<_>>().join(", "));
            }
        }
        Ok(format!("\n{}:\n\n{}\nEvery run:\n\n{every_run}", self.title, table.markdown()))
    }
}
