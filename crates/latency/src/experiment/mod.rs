//! What all experiments have in common: rows that are measured in turn, medians over the runs,
//! tables, and a result that is a single serialisable value.
//!
//! A row is what an experiment compares with others, for example an engine in one configuration.
//! Its figures are a struct that can be serialised, so that they are aggregated and printed by
//! name.

pub(crate) mod aggregate;
pub(crate) mod course;
mod earlier;
mod kernel;
mod place;
pub(crate) mod table;
pub(crate) mod timeline;

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tailwater_io::Clock as _;
use tailwater_io::clock::{SystemClock, Utc};
use tailwater_io::kernel::{Environment, System};

pub use self::aggregate::variation;
pub use self::earlier::Earlier;
pub(crate) use self::kernel::KERNEL;
pub(crate) use self::place::Place;
pub use self::table::{Figure, Table};
use crate::failure::Failure;
use crate::files::write_json;
use crate::report::{self, Describe, ReportFiles};

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

    /// Like [`Self::new`], and also writes the result, its report and the report's picture to
    /// `files`. The text ends with the path of the report.
    ///
    /// # Errors
    /// Errors from writing the files.
    pub fn recorded(
        text: String,
        result: &impl Serialize,
        files: &ReportFiles,
        describe: Describe,
    ) -> Result<Self, Failure> {
        let mut finished = Self::new(text, result)?;
        let json = files.json();
        write_json(json, &finished.result)?;
        let report = report::write(&describe(&finished.result)?, json)?;
        finished.text +=
            &format!("All figures: {}\nReport: {}\n", json.display(), report.display());
        Ok(finished)
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

/// Returns the command with which this program was started, as a line for a shell.
pub fn command() -> String {
    let quoted = |word: String| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:%+@".contains(c);
        if !word.is_empty() && word.chars().all(is_plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    let words = std::env::args_os().map(|word| quoted(word.to_string_lossy().into_owned()));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the current time, such as `2026-11-29 04:12:33 UTC`.
pub fn now() -> String {
    let time = Utc(SystemClock.wall_us()).to_string();
    let seconds = time.split('.').next().unwrap_or_default();
    seconds.replace('-', " ").replace('/', "-") + " UTC"
}

/// Describes the machine, and the filesystem and device of `directory`, by the names of the
/// properties.
pub fn environment(directory: &Path) -> Vec<(&'static str, String)> {
    Environment::of_directory(&System::default(), directory).named()
}
