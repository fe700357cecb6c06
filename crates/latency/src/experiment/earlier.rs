//! Reports of earlier runs.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::Finished;
use crate::failure::Failure;
use crate::files::{read_json, write_text};
use crate::report::{Describe, Document, compare, write};

/// Arguments that make a report of earlier runs.
#[derive(Debug, Clone, Default, Args)]
pub struct Earlier {
    /// Measure nothing: make report.html and its picture again from an earlier report.json
    #[arg(long, value_name = "REPORT.json", conflicts_with = "compare")]
    pub render: Option<PathBuf>,
    /// Measure nothing: put two earlier runs side by side, in compare.html next to the second
    #[arg(long, num_args = 2, value_names = ["A.json", "B.json"])]
    pub compare: Vec<PathBuf>,
}

impl Earlier {
    /// Makes the requested report of earlier runs; `None` if none is requested.
    ///
    /// # Errors
    /// If a file cannot be read or is not from this experiment; errors from writing the report.
    pub fn finish(&self, describe: Describe) -> Result<Option<Finished>, Failure> {
        let read = |path: &Path| -> Result<(Value, Document), Failure> {
            let name = path.display();
            let result = read_json(path)?.ok_or_else(|| format!("{name}: no such file"))?;
            let document = describe(&result).map_err(|error| format!("{name}: {error}"))?;
            Ok((result, document))
        };
        let (result, path) = match (&self.render, &self.compare[..]) {
            (Some(path), _) => {
                let (result, document) = read(path)?;
                (result, write(&document, path)?)
            }
            (None, [first, second]) => {
                let ((a, of_a), (b, of_b)) = (read(first)?, read(second)?);
                let sides = [(first.as_path(), of_a), (second, of_b)];
                let path = second.with_file_name("compare.html");
                write_text(&path, &compare::page(&sides)?)?;
                (json!([a, b]), path)
            }
            (None, _) => return Ok(None),
        };
        Ok(Some(Finished { text: format!("Report: {}\n", path.display()), result }))
    }
}
