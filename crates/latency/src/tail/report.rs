//! The report of an experiment, `report.json`. `docs/tail.md` describes its fields.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::configuration::Configuration;
use super::environment::Environment;
use super::equal_work::{Work, differences};
use super::figures::Figures;
use super::plan::{Parameters, Plan, Row};
use super::results::{Results, Run};
use crate::experiment::aggregate::{aggregate, maximum, mean, middle, minimum, ratios, variation};
use crate::failure::Failure;

/// The parameters, environment and results of an experiment.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Version of the report's format. It changes when the meaning of a field changes.
    schema: u32,
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
    /// engine's reference ([`Report::reference`]). If there are any, the latencies are not
    /// comparable.
    #[serde(serialize_with = "as_fields")]
    pub(super) unequal_work: Vec<Work>,
    /// The measures of concurrent work (writing and compacting) in which this row differs from the
    /// first engine's row with the same configuration.
    #[serde(serialize_with = "as_fields")]
    pub(super) unequal_work_of_engines: Vec<Work>,
    pub(super) runs: Vec<Run>,
}

fn as_fields<S: serde::Serializer>(work: &[Work], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(work.iter().map(|work| work.field()))
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

    fn compare(&mut self) -> Result<(), Failure> {
        let compared = self.configurations.iter().map(|report| {
            let buffered = self.buffered(report.row).map(|buffered| &buffered.median);
            let ratios = match buffered {
                Some(buffered) => {
                    ratios(&serde_json::to_value(&report.median)?, &serde_json::to_value(buffered)?)
                }
                None => Value::Null,
            };
            if !report.row.configuration.disturbs() {
                return Ok((ratios, Vec::new(), Vec::new()));
            }
            let unequal = differences(&report.median, &self.reference(report.row)?);
            let of_engines = match self.first_engine(report.row) {
                Some(first) => differences(&report.median, &first.median),
                None => Vec::new(),
            };
            Ok((ratios, unequal, of_engines))
        });
        let compared = compared.collect::<Result<Vec<_>, Failure>>()?;
        for (report, compared) in self.configurations.iter_mut().zip(compared) {
            let unequal = &mut report.unequal_work;
            (report.ratios_to_buffered, *unequal, report.unequal_work_of_engines) = compared;
        }
        Ok(())
    }

    /// Returns the first row with the same configuration and compaction rate as `of`, whatever its
    /// engine; `None` if that row is `of` itself.
    fn first_engine(&self, of: Row) -> Option<&ConfigurationReport> {
        let same = |report: &&ConfigurationReport| Row { engine: of.engine, ..report.row } == of;
        self.configurations.iter().find(same).filter(|first| first.row.engine != of.engine)
    }

    /// Returns the reference for the concurrent work (writing and compacting) during the runs of
    /// `row`. The reference consists of the medians of the same engine's `buffered` row. If there
    /// is none, it consists of the medians over all rows of the engine that have concurrent work.
    fn reference(&self, row: Row) -> Result<Figures, Failure> {
        if let Some(buffered) = self.buffered(row) {
            return Ok(buffered.median.clone());
        }
        let same = |other: &&ConfigurationReport| {
            other.row.engine == row.engine && other.row.configuration.disturbs()
        };
        let rows = self.configurations.iter().filter(same);
        let rows =
            rows.map(|row| serde_json::to_value(&row.median)).collect::<Result<Vec<_>, _>>()?;
        Ok(serde_json::from_value(aggregate(&rows, &middle))?)
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
        Ok(Self {
            row,
            options: row.options(),
            median: serde_json::from_value(aggregate(&figures, &middle))?,
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
