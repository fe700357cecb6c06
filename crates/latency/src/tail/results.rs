//! Stores the figures of each completed run in a file, so that an interrupted experiment can be
//! resumed.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::figures::Figures;
use super::plan::{Parameters, Plan, Row};
use crate::experiment::timeline::Timeline;
use crate::failure::Failure;
use crate::files::{create_directory, named, read_json, write_json};
use crate::own::claim_files;

/// Name of the file that marks a directory as a results directory of this program.
const MARK: &str = "RESULTS-OF-TAILWATER-TAIL";
/// Content of the mark file, for a user who finds it.
const MARK_TEXT: &str = "Each experiment overwrites the files in this directory.\n";
/// The files and directories that an experiment writes in its results directory.
const WRITTEN: [&str; 6] =
    ["parameters.json", "report.json", "report.html", "report.svg", "table.txt", "runs"];

/// One run of one row. A row is an engine with a configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Run {
    /// Number of the run, counted from 1.
    pub(super) run: usize,
    #[serde(flatten)]
    pub(super) figures: Figures,
    #[serde(default)]
    pub(super) timeline: Timeline,
}

/// The stored runs of an experiment. They are in the same directory as its report.
#[derive(Debug)]
pub(super) struct Results {
    out: PathBuf,
}

impl Results {
    /// Opens the results of an experiment. With `--resume`, the runs of an interrupted experiment
    /// with the same parameters are kept, and its calibrated write rate is copied into `plan`.
    /// Otherwise the results are empty.
    ///
    /// # Errors
    /// If the interrupted experiment had different parameters; if files that this program did not
    /// create would be overwritten; errors of the filesystem.
    pub(super) fn open(plan: &mut Plan) -> Result<Self, Failure> {
        let results = Self { out: plan.out.clone() };
        create_directory(&results.out)?;
        let before: Option<Parameters> =
            if plan.resume { read_json(&results.parameters())? } else { None };
        match before {
            Some(before) => {
                let rate = &mut plan.parameters.write_bytes_per_second;
                *rate = rate.or(before.write_bytes_per_second);
                if plan.parameters != before {
                    return Err(format!(
                        "--resume: the experiment in {} had different parameters: {}",
                        plan.out.display(),
                        differences(&before, &plan.parameters)?
                    )
                    .into());
                }
            }
            None => {
                results.check_own()?;
                results.remove_runs()?;
                results.save_parameters(&plan.parameters)?;
            }
        }
        Ok(results)
    }

    fn parameters(&self) -> PathBuf {
        self.out.join("parameters.json")
    }

    fn runs(&self) -> PathBuf {
        self.out.join("runs")
    }

    /// Marks the directory as a results directory.
    ///
    /// # Errors
    /// If the directory is not marked and contains files that would be overwritten.
    fn check_own(&self) -> Result<(), Failure> {
        claim_files(&self.out.join(MARK), MARK_TEXT, &WRITTEN.map(|name| self.out.join(name)))
    }

    /// Removes the stored runs of an earlier experiment, and no other files.
    #[expect(clippy::disallowed_methods, reason = "no database's files")]
    fn remove_runs(&self) -> Result<(), Failure> {
        let runs = self.runs();
        create_directory(&runs)?;
        let removed = || -> std::io::Result<()> {
            for entry in std::fs::read_dir(&runs)? {
                let entry = entry?;
                if entry.file_name().to_str().is_some_and(is_run) && entry.file_type()?.is_file() {
                    std::fs::remove_file(entry.path())?;
                }
            }
            Ok(())
        };
        Ok(named(&runs, removed())?)
    }

    fn file(&self, row: Row, run: usize) -> PathBuf {
        self.runs().join(format!("{run}-{}.json", row.file_name()))
    }

    /// Stores the parameters of this experiment.
    pub(super) fn save_parameters(&self, parameters: &Parameters) -> Result<(), Failure> {
        write_json(&self.parameters(), parameters)
    }

    /// Returns a stored run; `None` if it has not been measured.
    ///
    /// # Errors
    /// If the file cannot be read or has a different format.
    pub(super) fn get(&self, row: Row, run: usize) -> Result<Option<Run>, Failure> {
        read_json(&self.file(row, run))
    }

    /// Stores a run.
    pub(super) fn put(&self, row: Row, run: &Run) -> Result<(), Failure> {
        write_json(&self.file(row, run.run), run)
    }

    /// Returns the stored runs of a row, in ascending order of their numbers.
    pub(super) fn of_row(&self, row: Row, runs: usize) -> Result<Vec<Run>, Failure> {
        (1..=runs).filter_map(|run| self.get(row, run).transpose()).collect()
    }
}

/// Returns whether a file has the name of a stored run, or of one that is being written.
/// [`Results::file`] returns these names.
fn is_run(name: &str) -> bool {
    let stem = name.strip_suffix(".json").or_else(|| name.strip_suffix(".unfinished"));
    let number = stem.and_then(|stem| stem.split_once('-')).map(|(number, _)| number);
    number.is_some_and(|number| number.parse::<usize>().is_ok())
}

/// Describes, for an error message, the parameters in which two experiments differ.
fn differences(before: &Parameters, now: &Parameters) -> Result<String, Failure> {
    let (before, now) = (serde_json::to_value(before)?, serde_json::to_value(now)?);
    let fields = before.as_object().into_iter().flatten();
    let differing = fields.filter(|(name, value)| now[name.as_str()] != **value);
    let said = differing.map(|(name, value)| format!("{name} {value}, not {}", now[name.as_str()]));
    Ok(said.collect::<Vec<_>>().join("; "))
}
