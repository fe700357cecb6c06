//! The directory in which an experiment creates its databases and logs.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tailwater_io::posix::PosixStorage;
use tailwater_io::{FileLock, Storage as _};

use crate::failure::Failure;
use crate::files::create_directory;

/// Name of the lock file. It is not `LOCK`, the name in databases and message logs, which no
/// program could open while an experiment holds their lock.
const LOCK: &str = "LOCK-OF-TAILWATER-EXPERIMENT";

/// Files by which a database or a message log is recognized.
const OTHERS: [(&str, &str); 2] = [("CURRENT", "database"), ("TAILWATER-LOG", "message log")];

/// The directory of an experiment. No other experiment uses it until the value is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    directory: PathBuf,
    _lock: Box<dyn FileLock>,
}

impl Place {
    /// Creates the directory if it does not exist, and locks it.
    ///
    /// # Errors
    /// If it is the directory of a database or of a message log; if another experiment uses it;
    /// other errors of the filesystem.
    pub(crate) fn take(directory: &Path) -> Result<Self, Failure> {
        let name = directory.display();
        let is_there = |file: &str| directory.join(file).symlink_metadata().is_ok();
        if let Some((file, kind)) = OTHERS.into_iter().find(|(file, _)| is_there(file)) {
            return Err(format!(
                "{name} is the directory of a {kind}, since it contains {file}: an experiment \
                 measures those that it creates itself; choose another --directory"
            )
            .into());
        }
        create_directory(directory)?;
        let lock = PosixStorage::new().lock(&directory.join(LOCK));
        let _lock = lock.map_err(|error| match error.source.kind() {
            ErrorKind::WouldBlock => format!("{name} is used by another experiment"),
            _ => error.to_string(),
        })?;
        Ok(Self { directory: directory.to_owned(), _lock })
    }

    /// Returns the path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.directory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: an experiment in the directory of a database or a message log held its
    /// LOCK, so that no program could open it meanwhile.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "imitates a database and a message log")]
    fn the_lock_of_a_database_or_log_is_not_taken() {
        for file in ["CURRENT", "TAILWATER-LOG"] {
            let scratch = tempfile::tempdir().unwrap();
            std::fs::write(scratch.path().join(file), "").unwrap();
            let error = Place::take(scratch.path()).unwrap_err().to_string();
            assert!(error.contains(file) && error.contains("--directory"), "{error}");
            assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);
        }
        // A directory that has a LOCK and is neither.
        let scratch = tempfile::tempdir().unwrap();
        let theirs = PosixStorage::new().lock(&scratch.path().join("LOCK")).unwrap();
        let place = Place::take(scratch.path()).unwrap();
        drop(theirs);
        PosixStorage::new().lock(&scratch.path().join("LOCK")).unwrap();
        drop(place);
    }

    #[test]
    fn a_place_has_one_experiment_at_a_time() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("missing/deeper");
        let first = Place::take(&directory).unwrap();
        let error = Place::take(&directory).unwrap_err().to_string();
        assert!(error.contains("another experiment"), "{error}");
        drop(first);
        Place::take(&directory).unwrap();
    }
}
