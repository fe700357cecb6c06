//! What all experiments have in common: rows that are measured in turn, medians over the runs,
//! tables, and a result that is a single serialisable value.
//!
//! A row is what an experiment compares with others, for example an engine in one configuration.
//! Its figures are a struct that can be serialised, so that they are aggregated and printed by
//! name.

pub(crate) mod aggregate;
mod kernel;
mod table;

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tailwater_io::kernel::{Environment, System};

pub(crate) use self::kernel::KERNEL;
pub use self::table::{Figure, Table};
use crate::failure::Failure;
use crate::files::write_json;

/// A finished experiment.
#[derive(Debug)]
pub struct Finished {
    /// The text to print: tables and explanations.
    pub text: String,
    /// Everything that was measured: the content of `report.json`, if the experiment writes that
    /// file.
    pub result: Value,
}

impl Finished {
    /// Creates the value from the text to print and a serialisable result.
    ///
    /// # Errors
    /// If the result cannot be serialised.
    pub fn new(text: String, result: &impl Serialize) -> Result<Self, Failure> {
        Ok(Self { text, result: serde_json::to_value(result)? })
    }

    /// Like [`Self::new`], and also writes the result to `path`.
    ///
    /// # Errors
    /// Errors from writing the file.
    pub fn recorded(text: String, result: &impl Serialize, path: &Path) -> Result<Self, Failure> {
        write_json(path, result)?;
        Self::new(text, result)
    }
}

/// A row, the figures of its runs, and the median of each figure.
#[derive(Debug, Serialize)]
pub struct Measured<R, F> {
    /// The row.
    #[serde(flatten)]
    pub row: R,
    /// The median of each figure over the runs.
    pub median: F,
    /// The figures of each run.
    pub runs: Vec<F>,
}

impl<R, F: Serialize + DeserializeOwned> Measured<R, F> {
    /// Computes the medians of the runs, of which there must be at least one.
    ///
    /// # Errors
    /// The errors of [`medians`].
    pub fn new(row: R, runs: Vec<F>) -> Result<Self, Failure> {
        Ok(Self { row, median: medians(&runs)?, runs })
    }
}

/// Returns the median of each figure over the runs, of which there must be at least one.
///
/// # Errors
/// If a figure is not finite.
pub fn medians<F: Serialize + DeserializeOwned>(runs: &[F]) -> Result<F, Failure> {
    let values = runs.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
    Ok(serde_json::from_value(aggregate::aggregate(&values, &aggregate::middle))?)
}

/// Measures each row once in each of `runs` runs. `measure` gets the number of the run, from 0, and
/// the row.
///
/// # Errors
/// The first error of `measure`.
pub fn in_turn<R, F: Serialize + DeserializeOwned>(
    rows: Vec<R>,
    runs: usize,
    mut measure: impl FnMut(usize, &R) -> Result<F, Failure>,
) -> Result<Vec<Measured<R, F>>, Failure> {
    let mut figures: Vec<Vec<F>> = rows.iter().map(|_| Vec::new()).collect();
    for run in 0..runs {
        for row in turns(rows.len(), run) {
            figures[row].push(measure(run, &rows[row])?);
        }
    }
    rows.into_iter().zip(figures).map(|(row, runs)| Measured::new(row, runs)).collect()
}

/// Returns the order in which run `run` measures `rows` rows. Each run starts with another row, so
/// that other load on the machine affects all rows alike.
pub fn turns(rows: usize, run: usize) -> impl Iterator<Item = usize> {
    (0..rows).map(move |turn| (turn + run) % rows)
}

/// Describes the machine, and the filesystem and device of `directory`, by the names of the
/// properties.
pub fn environment(directory: &Path) -> Vec<(&'static str, String)> {
    Environment::of_directory(&System::default(), directory).named()
}
