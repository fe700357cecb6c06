//! The report of an experiment, `report.json`. `docs/tail.md` describes its fields.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::configuration::Configuration;
use super::environment::Environment;
use super::equal_work::differences;
use super::figures::Figures;
use super::plan::{Parameters, Plan, Row};
use super::results::{Results, Run};
use crate::experiment::aggregate::{aggregate, maximum, mean, middle, minimum, ratios, variation};
use crate::experiment::{command, now};
use crate::failure::Failure;

/// The parameters, environment and results of an experiment.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Version of the report's format. It changes when the meaning of a field changes.
    schema: u32,
    /// The command line, and when the experiment ended.
    command: String,
    measured_at: String,
    pub(super) parameters: Parameters,
    pub(super) environment: Environment,
    /// Figures of the device itself, measured without an engine; `None` if its filesystem does not
    /// support direct I/O.
    device_probe: Option<BTreeMap<&'static str, f64>>,
    pub(super) configurations: Vec<ConfigurationReport>,
}

/// One row: its runs, and aggregates over the runs.
#[derive(Debug, Serialize)]
pub(super) struct ConfigurationReport {
    #[serde(flatten)]
    pub(super) row: Row,
    options: String,
    pub(super) median: Figures,
    pub(super) mean: Value,
    minimum: Value,
    maximum: Value,
    pub(super) variation: Value,
    /// The fields of `median`, each divided by the same field of the `buffered` row of this engine.
    pub(super) ratios_to_buffered: Value,
    /// The measures of concurrent work (writing and compacting) in which this row differs from its
    /// engine's reference ([`Report::compare`]). If there are any, the latencies are not
    /// comparable.
    pub(super) unequal_work: Vec<&'static str>,
    /// The measures of concurrent work (writing and compacting) in which this row differs from the
    /// first engine's row with the same configuration.
    pub(super) unequal_work_of_engines: Vec<&'static str>,
    pub(super) runs: Vec<Run>,
}

impl Report {
    /// Creates the report from the runs that have results.
    pub(super) fn new(
        plan: &Plan,
        results: &Results,
        environment: Environment,
        device_probe: Option<BTreeMap<&'static str, f64>>,
    ) -> Result<Self, Failure> {
        let mut configurations = Vec::new();
        for &row in &plan.rows {
            let runs = results.of_row(row, plan.runs)?;
            if !runs.is_empty() {
                configurations.push(ConfigurationReport::new(row, runs)?);
            }
        }
        let mut report = Self {
            schema: 1,
            command: command(),
            measured_at: now(),
            parameters: plan.parameters.clone(),
            environment,
            device_probe,
            configurations,
        };
        report.compare()?;
        Ok(report)
    }

    /// Creates a report of these rows, with default parameters and without comparisons.
    #[cfg(test)]
    pub(super) fn of_rows(configurations: Vec<ConfigurationReport>) -> Self {
        let plan = Plan::new(&super::TailArguments::default()).expect("the default");
        Self {
            schema: 1,
            command: String::new(),
            measured_at: String::new(),
            parameters: plan.parameters,
            environment: Environment::of(".".as_ref(), (String::new(), false)),
            device_probe: None,
            configurations,
        }
    }

    /// Returns the `buffered` row that has the same engine and compaction rate as `of`.
    pub(super) fn buffered(&self, of: Row) -> Option<&ConfigurationReport> {
        let row = Row { configuration: Configuration::Buffered, ..of };
        self.configurations.iter().find(|report| report.row == row)
    }

    /// Sets the fields of each row that compare it with other rows.
    ///
    /// The reference for the concurrent work (writing and compacting) of a row consists of the
    /// medians of the same engine's `buffered` row. If there is none, it consists of the medians
    /// over all rows of the engine that have concurrent work.
    fn compare(&mut self) -> Result<(), Failure> {
        let medians = self.configurations.iter().map(|report| serde_json::to_value(&report.median));
        let medians = medians.collect::<Result<Vec<_>, _>>()?;
        let rows: Vec<Row> = self.configurations.iter().map(|report| report.row).collect();
        let others = || rows.iter().zip(&medians);
        for (report, median) in self.configurations.iter_mut().zip(&medians) {
            let row = report.row;
            let buffered = Row { configuration: Configuration::Buffered, ..row };
            let buffered = others().find(|(other, _)| **other == buffered).map(|(_, it)| it);
            report.ratios_to_buffered = buffered.map_or(Value::Null, |it| ratios(median, it));
            if !row.configuration.disturbs() {
                continue;
            }
            let reference = buffered.cloned().unwrap_or_else(|| {
                let disturbs =
                    |other: &Row| other.engine == row.engine && other.configuration.disturbs();
                let medians = others().filter(|(other, _)| disturbs(other));
                let medians: Vec<Value> = medians.map(|(_, median)| median.clone()).collect();
                aggregate(&medians, &middle)
            });
            report.unequal_work = differences(median, &reference);
            // The first row with the same configuration and compaction rate, whatever its engine.
            let first = others().find(|(other, _)| Row { engine: row.engine, ..**other } == row);
            let first = first.filter(|(first, _)| first.engine != row.engine);
            report.unequal_work_of_engines =
                first.map_or_else(Vec::new, |(_, first)| differences(median, first));
        }
        Ok(())
    }
}

impl ConfigurationReport {
    /// Creates the report of one row. The fields that compare it with other rows are left empty.
    ///
    /// # Errors
    /// If the figures cannot be aggregated, which does not happen in practice.
    pub(super) fn new(row: Row, runs: Vec<Run>) -> Result<Self, Failure> {
        let figures = runs.iter().map(|run| serde_json::to_value(&run.figures));
        let figures = figures.collect::<Result<Vec<_>, _>>()?;
        let mut median: Figures = serde_json::from_value(aggregate(&figures, &middle))?;
        // The comparison must fit the figures that are shown with it.
        if let Some(alone) = median.baseline.clone().or(median.before_compaction.clone()) {
            median.compare_with(&alone);
        }
        Ok(Self {
            row,
            options: row.options(),
            median,
            mean: aggregate(&figures, &mean),
            minimum: aggregate(&figures, &minimum),
            maximum: aggregate(&figures, &maximum),
            variation: aggregate(&figures, &variation),
            ratios_to_buffered: Value::Null,
            unequal_work: Vec::new(),
            unequal_work_of_engines: Vec::new(),
            runs,
        })
    }
}
