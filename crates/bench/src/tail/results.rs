//! What was measured so far, in files, so that an experiment that was interrupted can go on.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::figures::Figures;
use super::plan::{Parameters, Plan, Row};
use crate::files::{create_directory, read_json, remove_directory, write_json};
use crate::store::Failure;

/// One run of one row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Run {
    /// Which of the row's runs, from 1.
    pub(super) run: usize,
    #[serde(flatten)]
    pub(super) figures: Figures,
}

/// The runs of an experiment, in the directory of its report.
#[derive(Debug)]
pub(super) struct Results {
    out: PathBuf,
}

impl Results {
    /// Those of `plan`: none yet, or what was measured before with equal parameters where the
    /// experiment is to go on. A write rate that was calibrated then is taken into the plan.
    ///
    /// # Errors
    /// To go on with other parameters; those of the filesystem.
    pub(super) fn open(plan: &mut Plan) -> Result<Self, Failure> {
        let results = Self { out: plan.out.clone() };
        let before: Option<Parameters> = match plan.resume {
            true => read_json(&results.parameters())?,
            false => None,
        };
        match before {
            Some(before) => {
                let rate = &mut plan.parameters.write_bytes_per_second;
                *rate = rate.or(before.write_bytes_per_second);
                if plan.parameters != before {
                    return Err(format!(
                        "--resume: the experiment in {} had other parameters: {}",
                        plan.out.display(),
                        differences(&before, &plan.parameters)?
                    )
                    .into());
                }
            }
            None => {
                remove_directory(&results.runs())?;
                create_directory(&results.runs())?;
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

    fn file(&self, row: Row, run: usize) -> PathBuf {
        self.runs().join(format!("{run}-{}.json", row.file_name()))
    }

    /// Says what this experiment is.
    ///
    /// # Errors
    /// Those of writing.
    pub(super) fn save_parameters(&self, parameters: &Parameters) -> Result<(), Failure> {
        write_json(&self.parameters(), parameters)
    }

    /// A run that was measured, if it was.
    ///
    /// # Errors
    /// A file that is none of ours.
    pub(super) fn get(&self, row: Row, run: usize) -> Result<Option<Run>, Failure> {
        read_json(&self.file(row, run))
    }

    /// Keeps a run.
    ///
    /// # Errors
    /// Those of writing.
    pub(super) fn put(&self, row: Row, run: &Run) -> Result<(), Failure> {
        write_json(&self.file(row, run.run), run)
    }

    /// All runs of a row, in their order.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(super) fn of_row(&self, row: Row, runs: usize) -> Result<Vec<Run>, Failure> {
        (1..=runs).filter_map(|run| self.get(row, run).transpose()).collect()
    }
}

/// The parameters in which two experiments differ, in words.
fn differences(before: &Parameters, now: &Parameters) -> Result<String, Failure> {
    let (before, now) = (serde_json::to_value(before)?, serde_json::to_value(now)?);
    let fields = before.as_object().into_iter().flatten();
    let differing = fields.filter(|(name, value)| now[name.as_str()] != **value);
    let said = differing.map(|(name, value)| format!("{name} {value}, not {}", now[name.as_str()]));
    Ok(said.collect::<Vec<_>>().join("; "))
}
