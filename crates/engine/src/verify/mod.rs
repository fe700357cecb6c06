//! Verification: reads all files of a database and reports what is wrong with them.
//!
//! Unlike opening, verification does not stop at the first damage, but returns a list of findings.
//! Verification changes no file. It checks
//! - the checksum of every block, and the order of the keys,
//! - indexes and filters against the data blocks,
//! - counts and sizes against the tables' properties,
//! - the bounds of tables, and file and sequence numbers, against the MANIFEST,
//! - the logs,
//! - the blob files, and the tables' references to them,
//! - the directories as a whole: missing, obsolete and foreign files.

mod blob;
mod directory;
mod table;
mod table_blocks;
mod table_contents;
mod wal;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::record_log::Torn;
use tailwater_io::Storage;
use tailwater_io::stream::SequentialReader;

use crate::column_family::ColumnFamily;
use crate::error::{Error, ErrorKind};
use crate::open_options::OpenOptions;
use crate::table::TableReader;
use crate::version::Version;
use crate::version::manifest::{self, FamilyState, Manifest};

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// For information only: nothing is wrong.
    Note,
    /// A log or MANIFEST ends inside its last record, as after a crash.
    TornTail,
    /// A part of the database could not be verified, so it is unknown whether it is damaged.
    /// Verifying it needs an unsupported feature, an object that is not registered, such as a
    /// comparator, or more open files than the process may have.
    Unsupported,
    /// Bytes contradict their checksum or each other, or something is missing.
    Damage,
}

impl Severity {
    /// Returns the severity's name in reports: `note`, `torn_tail`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::TornTail => "torn_tail",
            Self::Unsupported => "unsupported",
            Self::Damage => "damage",
        }
    }
}

/// A finding of verification.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The severity of the finding.
    pub severity: Severity,
    /// The affected file or directory.
    pub path: PathBuf,
    /// The offset in the file, in bytes, if known.
    pub offset: Option<u64>,
    /// The description of the problem.
    pub message: String,
}

/// The result of verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The findings, in the order of the checks.
    pub findings: Vec<Finding>,
    /// Number of tables read.
    pub tables: u64,
    /// Number of records in the tables read, range tombstones included.
    pub entries: u64,
    /// Number of blob files read.
    pub blob_files: u64,
    /// Number of blobs in the blob files read.
    pub blobs: u64,
    /// Number of write-ahead logs read.
    pub logs: u64,
    /// Number of batches in the write-ahead logs read.
    pub batches: u64,
    /// Total size of the files read, in bytes.
    pub bytes: u64,
}

impl Report {
    /// Returns the highest severity of the findings; `None` if there are none.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    fn add(&mut self, severity: Severity, path: &Path, offset: Option<u64>, message: String) {
        self.findings.push(Finding { severity, path: path.to_owned(), offset, message });
    }

    fn damage(&mut self, path: &Path, message: impl Into<String>) {
        self.add(Severity::Damage, path, None, message.into());
    }

    fn damage_at(&mut self, path: &Path, offset: u64, message: impl Into<String>) {
        self.add(Severity::Damage, path, Some(offset), message.into());
    }

    fn unsupported(&mut self, path: &Path, offset: Option<u64>, feature: &str) {
        self.add(Severity::Unsupported, path, offset, format!("not supported: {feature}"));
    }

    /// Returns the first finding that is more than a note or a torn tail, as an error.
    fn first_error(&self) -> crate::error::Result<()> {
        let is_error = |finding: &&Finding| finding.severity >= Severity::Unsupported;
        let Some(found) = self.findings.iter().find(is_error) else { return Ok(()) };
        let (path, message) = (&found.path, found.message.clone());
        Err(match (found.severity, found.offset) {
            (Severity::Damage, Some(offset)) => Error::corruption_at(path, offset, message),
            (Severity::Damage, None) => Error::corruption(path, message),
            _ => Error::new(ErrorKind::NotSupported, message).in_file(path),
        })
    }

    /// Adds a finding for an error that occurred while reading `path`.
    fn error(&mut self, path: &Path, error: &Error) {
        let named = error.path().unwrap_or(path);
        let severity = match error.kind() {
            // Here an invalid argument means that the caller did not supply an option or an object,
            // such as a comparator, that the file requires.
            ErrorKind::NotSupported | ErrorKind::InvalidArgument => Severity::Unsupported,
            // The file was not read, so nothing is known about its contents.
            _ if error.is_out_of_descriptors() || error.is_permission_denied() => {
                Severity::Unsupported
            }
            _ => Severity::Damage,
        };
        self.add(severity, named, error.offset(), error.message().to_owned());
    }
}

/// Progress of verification.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The file that is about to be read.
    pub path: PathBuf,
    /// Bytes read so far, of all files.
    pub bytes_done: u64,
    /// Total size of all files, in bytes.
    pub bytes_total: u64,
}

/// The state of a verification. The files `directory`, `table`, `blob` and `wal` have the checks of
/// what they are named after.
struct Verification<'a> {
    directory: &'a Path,
    options: &'a OpenOptions,
    storage: Arc<dyn Storage>,
    progress: &'a mut dyn FnMut(&Progress),
    bytes_total: u64,
    report: Report,
    /// The stream for reading tables; `None` before it is created and while it is in use.
    stream: Option<SequentialReader>,
}

/// A column family according to the MANIFEST.
struct Family {
    id: u32,
    name: String,
    comparator: Comparator,
    version: Version,
    /// Number of the oldest log that the family needs: all its writes in logs with a lower number
    /// are in tables.
    log_number: u64,
}

/// Verifies the database in `directory`.
///
/// The directory must not be written to while this runs.
pub fn verify(directory: impl AsRef<Path>, options: &OpenOptions) -> Report {
    verify_with_progress(directory, options, &mut |_| {})
}

/// Like [`verify()`], and calls `progress` before each file is read.
pub fn verify_with_progress(
    directory: impl AsRef<Path>,
    options: &OpenOptions,
    progress: &mut dyn FnMut(&Progress),
) -> Report {
    let mut verification = Verification::new(directory.as_ref(), options, progress);
    verification.run();
    verification.report
}

/// Verifies a table outside a database.
///
/// # Errors
/// Corruption, for the first damage found; not supported, for unsupported features.
pub(crate) fn check_table(
    storage: &Arc<dyn Storage>,
    path: &Path,
    table: &TableReader,
) -> crate::error::Result<()> {
    let options = OpenOptions::with_storage(Arc::clone(storage));
    let progress = &mut |_: &Progress| {};
    let mut verification = Verification::new(path.parent().unwrap_or(path), &options, progress);
    verification.check_unlisted_table(path, table)?;
    verification.report.first_error()
}

/// Verifies the tables of an open database's column families. Reads them past the database's
/// caches.
///
/// # Errors
/// Corruption, for the first damage found; not supported, for unsupported features.
pub(crate) fn check_open_tables(
    storage: &Arc<dyn Storage>,
    families: &[ColumnFamily],
) -> crate::error::Result<()> {
    let options = OpenOptions::with_storage(Arc::clone(storage));
    let progress = &mut |_: &Progress| {};
    let mut verification = Verification::new(Path::new(""), &options, progress);
    for family in families {
        let (readers, current) = (family.readers(), family.super_version());
        let tables = readers.tables.for_verification();
        let mut references = BTreeMap::new();
        for (_, file) in current.version().files() {
            verification.check_file(&tables, file, &readers.blobs, &mut references)?;
            verification.report.first_error()?;
        }
    }
    Ok(())
}

impl<'a> Verification<'a> {
    fn new(
        directory: &'a Path,
        options: &'a OpenOptions,
        progress: &'a mut dyn FnMut(&Progress),
    ) -> Self {
        let storage = Arc::clone(options.storage());
        let report = Report::default();
        Self { directory, options, storage, progress, bytes_total: 0, report, stream: None }
    }

    fn run(&mut self) {
        let Some(Manifest { database: manifest, families: states }) = self.read_manifest() else {
            self.lone_tables();
            return;
        };
        self.check_identity(&manifest);
        self.check_options_files();
        let family_count = states.len();
        let families = self.families(&manifest.path, states.into_values());
        self.check_numbers(&manifest, &families);
        // If a column family could not be read, its files are unknown, and checking the directories
        // would report them as obsolete.
        if families.len() == family_count {
            self.check_directories(&manifest, &families);
        }
        self.bytes_total = self.total_bytes(&families);
        for family in &families {
            self.check_tables(family);
            self.check_blob_files(family);
        }
        self.check_logs(&manifest, &families);
    }

    fn read_manifest(&mut self) -> Option<Manifest> {
        let read = manifest::current(&*self.storage, self.directory)
            .and_then(|number| Manifest::read(&*self.storage, self.directory, number));
        let manifest = match read {
            Ok(manifest) => manifest,
            Err(error) => {
                self.report.error(self.directory, &error);
                return None;
            }
        };
        let database = &manifest.database;
        if let Some(Torn { offset, dropped, reason, .. }) = database.torn {
            let message = format!("{reason}: {dropped} bytes are left out");
            self.report.add(Severity::TornTail, &database.path, Some(offset), message);
        }
        if database.unfinished_edits > 0 {
            let message = format!(
                "the last group of edits is not complete: {} edits are left out",
                database.unfinished_edits
            );
            self.report.add(Severity::TornTail, &database.path, None, message);
        }
        Some(manifest)
    }

    /// Returns the column families whose comparator is known; others cannot be read.
    fn families(
        &mut self,
        manifest: &Path,
        states: impl Iterator<Item = FamilyState>,
    ) -> Vec<Family> {
        let mut families = Vec::new();
        for FamilyState { id, name, comparator, log_number, files, .. } in states {
            let comparator = match self.options.comparator(&name, &comparator) {
                Ok(comparator) => comparator,
                Err(error) => {
                    self.report.error(manifest, &error);
                    continue;
                }
            };
            match files.finish(&comparator, 0) {
                Ok(version) => {
                    families.push(Family { id, name, comparator, version, log_number });
                }
                Err(what) => {
                    let message = format!("column family '{name}': the MANIFEST {what}");
                    self.report.damage(manifest, message);
                }
            }
        }
        families
    }

    /// Reports the next file to `progress`.
    fn begin(&mut self, path: &Path) {
        (self.progress)(&Progress {
            path: path.to_owned(),
            bytes_done: self.report.bytes,
            bytes_total: self.bytes_total,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind::{NotFound, Other, PermissionDenied};

    use tailwater_io::Operation;

    use super::*;

    /// Regression test: a file that the process may not read counted as damaged.
    #[test]
    fn a_file_that_must_not_be_read_is_not_damaged() {
        let path = Path::new("/db/000001.sst");
        for (kind, severity) in [
            (PermissionDenied, Severity::Unsupported),
            (Other, Severity::Damage),
            (NotFound, Severity::Damage),
        ] {
            let mut report = Report::default();
            let error = tailwater_io::Error::new(Operation::Open, path, kind);
            report.error(path, &error.into());
            assert_eq!(report.worst(), Some(severity), "{kind:?}");
        }
    }
}
