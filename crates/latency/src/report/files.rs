//! The files of a report. They are claimed before anything is measured: then it is certain that
//! they replace only files of this program, and that they can be written.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::files::{create_directory, unfinished};
use crate::own::claim_files;

/// What follows the name of the JSON in the name of the mark file next to it.
const MARK_SUFFIX: &str = ".made-by-tailwater";
/// Content of that mark file, for a user who finds it.
const MARK_TEXT: &str = "Each experiment that is told to write this report overwrites its .json, \
                         .html and .svg files.\n";
/// Name of the mark file in a directory with the results of a benchmark.
const DIRECTORY_MARK: &str = "RESULTS-OF-TAILWATER-BENCH";
/// Content of that mark file.
const DIRECTORY_MARK_TEXT: &str = "Each benchmark overwrites the files in this directory.\n";

/// The files of a report: its JSON, and next to it the page and the picture, whose names differ
/// from that of the JSON in the extension.
#[derive(Debug)]
pub struct ReportFiles {
    json: PathBuf,
}

impl ReportFiles {
    /// Claims the files of the report with this JSON file, and creates their directory if it does
    /// not exist. A mark file next to them says from then on that they are this program's.
    ///
    /// # Errors
    /// If `json` is a directory, or has the extension of the page, of the picture or of a temporary
    /// file; if one of the files exists that this program did not create; errors of the filesystem.
    pub fn at(json: &Path) -> Result<Self, Failure> {
        let name = json.display();
        if json.is_dir() {
            return Err(format!("--out: {name} is a directory, not the path of a file").into());
        }
        let files = Self::of(json);
        // All three files are written at the same temporary path, before they are renamed.
        if files[1..].contains(&files[0]) || unfinished(json) == json {
            let wanted = "the results are JSON, so choose a name that ends with .json";
            return Err(format!("--out: {name}: {wanted}").into());
        }
        if let Some(parent) = json.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            create_directory(parent).map_err(failed)?;
        }
        let mut mark = OsString::from(json);
        mark.push(MARK_SUFFIX);
        claim_files(Path::new(&mark), MARK_TEXT, &files)?;
        Ok(Self { json: json.to_owned() })
    }

    /// Claims the files of the report `report.json` in a directory, and `table.txt`. Creates the
    /// directory if it does not exist. A mark file in it says from then on that they are this
    /// program's.
    ///
    /// # Errors
    /// If one of the files exists that this program did not create; errors of the filesystem.
    pub fn in_directory(directory: &Path) -> Result<Self, Failure> {
        let json = directory.join("report.json");
        create_directory(directory).map_err(failed)?;
        let files: Vec<_> =
            Self::of(&json).into_iter().chain([directory.join("table.txt")]).collect();
        claim_files(&directory.join(DIRECTORY_MARK), DIRECTORY_MARK_TEXT, &files)?;
        Ok(Self { json })
    }

    /// Returns the files of the report with this JSON file, which the caller has claimed.
    pub(crate) fn claimed(json: PathBuf) -> Self {
        Self { json }
    }

    /// Returns the path of the JSON.
    pub(crate) fn json(&self) -> &Path {
        &self.json
    }

    fn of(json: &Path) -> [PathBuf; 3] {
        [json.to_owned(), json.with_extension("html"), json.with_extension("svg")]
    }
}

fn failed(error: Failure) -> String {
    format!("--out: {error}")
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the user's files")]
mod tests {
    use super::*;
    use crate::files::write_text;

    #[test]
    fn files_of_others_are_not_claimed() {
        for theirs in ["report.json", "report.html", "report.svg", "report.unfinished"] {
            let scratch = tempfile::tempdir().unwrap();
            let path = scratch.path().join(theirs);
            std::fs::write(&path, "mine").unwrap();
            let json = scratch.path().join("report.json");
            for claimed in [ReportFiles::at(&json), ReportFiles::in_directory(scratch.path())] {
                let error = claimed.unwrap_err().to_string();
                assert!(error.contains(&*path.to_string_lossy()), "{error}");
                assert!(error.contains("--out"), "{error}");
            }
            assert_eq!(std::fs::read(&path).unwrap(), b"mine");
            assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1, "{theirs}");
        }
        // A file that only benchmarks write.
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("table.txt"), "mine").unwrap();
        ReportFiles::at(&scratch.path().join("report.json")).unwrap();
        ReportFiles::in_directory(scratch.path()).unwrap_err();
    }

    #[test]
    fn a_report_replaces_an_earlier_one_at_the_same_path() {
        let scratch = tempfile::tempdir().unwrap();
        let json = scratch.path().join("missing/deeper/today.json");
        for round in ["first", "second"] {
            let files = ReportFiles::at(&json).unwrap();
            write_text(files.json(), round).unwrap();
        }
        assert_eq!(std::fs::read(&json).unwrap(), b"second");
        // The mark is of that report, not of the directory.
        let other = json.with_file_name("yesterday.json");
        std::fs::write(&other, "mine").unwrap();
        ReportFiles::at(&other).unwrap_err();
    }

    /// Regression test: a path that nothing can be written to was found out after the measurement.
    /// With the extension of the page, the page replaced the JSON.
    #[test]
    fn an_impossible_path_is_found_out_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("file");
        std::fs::write(&file, "mine").unwrap();
        for impossible in ["file/report.json", "report.html", "report.svg", "report.unfinished", ""]
        {
            let path = scratch.path().join(impossible);
            let error = ReportFiles::at(&path).unwrap_err().to_string();
            assert!(error.contains("--out"), "{impossible}: {error}");
        }
        ReportFiles::in_directory(&file).unwrap_err();
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);
    }
}
