//! Verifies a database that another process may be writing to.
//!
//! During writes, a finding may be temporary: for example, a log ends inside a record that is being
//! written, or a table is missing because it was removed after the MANIFEST was read. A finding is
//! therefore certain only in two cases. In the first, no file changed during the verification, and
//! no other process had the database open. In the second, the next verification repeats the
//! finding, and the file has not changed in between.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tailwater::OpenOptions;
use tailwater::verify::{Finding, Report, Severity, verify_with_progress};
use tailwater_io::{FileMetadata, Storage};

use crate::files::storage;
use crate::live::{Stamp, is_open_elsewhere, stamp};
use crate::outcome::Outcome;
use crate::progress::Progress;

/// Maximum number of verifications after the first one. A verification is repeated while its
/// findings may be temporary, caused by concurrent writes.
const ATTEMPTS: usize = 3;

type Stamps = BTreeMap<PathBuf, FileMetadata>;

/// One verification.
struct Attempt {
    report: Report,
    /// Length and modification time of each file of the database, taken after the verification.
    stamps: Stamps,
    /// Files that were changed, created or removed during the verification.
    changed: BTreeSet<PathBuf>,
    /// Whether another process had the database open before or after the verification.
    was_open: bool,
}

/// Verifies a database, and repeats the verification while findings may be temporary. If some
/// findings may still be temporary after the last repetition, they count as caused by a concurrent
/// write ([`Outcome::BeingWritten`]). Findings that are certain count with their own severity.
pub(super) fn settled(directory: &Path, options: &OpenOptions) -> (Report, Outcome) {
    let mut last = Attempt::make(directory, options);
    let mut outcome = last.outcome(None);
    for _ in 0..ATTEMPTS {
        if !last.is_doubtful(None) {
            break;
        }
        let next = Attempt::make(directory, options);
        outcome = next.outcome(Some(&last));
        let is_doubtful = next.is_doubtful(Some(&last));
        last = next;
        if !is_doubtful {
            break;
        }
    }
    (last.report, outcome)
}

impl Attempt {
    fn make(directory: &Path, options: &OpenOptions) -> Self {
        let storage = storage();
        let was_open = is_open_elsewhere(directory);
        let before = stamps(&*storage, directory, options);
        let progress = Progress::bytes();
        let report = verify_with_progress(directory, options, &mut |at| {
            progress.set(at.bytes_done, at.bytes_total);
            progress.at(at.path.display().to_string());
        });
        drop(progress);
        let stamps = stamps(&*storage, directory, options);
        let paths = before.keys().chain(stamps.keys());
        let changed =
            paths.filter(|path| before.get(*path) != stamps.get(*path)).cloned().collect();
        let was_open = was_open || is_open_elsewhere(directory);
        Self { report, stamps, changed, was_open }
    }

    /// Returns whether some finding may be caused by a concurrent write of another process.
    fn is_doubtful(&self, previous: Option<&Self>) -> bool {
        self.report.findings.iter().any(|finding| self.may_be_passing(finding, previous))
    }

    /// Returns the worst outcome of all findings. A finding that may be temporary counts as
    /// [`Outcome::BeingWritten`].
    fn outcome(&self, previous: Option<&Self>) -> Outcome {
        let outcome = |finding: &Finding| match finding.severity {
            _ if self.may_be_passing(finding, previous) => Outcome::BeingWritten,
            Severity::Note => Outcome::Well,
            Severity::TornTail => Outcome::TornTail,
            Severity::Unsupported => Outcome::Unsupported,
            // Damage, and severities that this program does not know.
            _ => Outcome::Damage,
        };
        self.report.findings.iter().map(outcome).fold(Outcome::Well, Outcome::and)
    }

    /// Returns whether a finding may be caused by a concurrent write of another process.
    fn may_be_passing(&self, finding: &Finding, previous: Option<&Self>) -> bool {
        if !matches!(finding.severity, Severity::TornTail | Severity::Damage) {
            return false;
        }
        if self.changed.is_empty() && !self.was_open {
            return false;
        }
        let Some(previous) = previous else { return true };
        let stamp = |attempt: &Self| -> Stamp { attempt.stamps.get(&finding.path).copied() };
        let is_same = !self.changed.contains(&finding.path)
            && stamp(self) == stamp(previous)
            && previous.report.findings.contains(finding);
        // A missing file has no stamp by which a change could be noticed. The file may be missing
        // because a newer MANIFEST no longer names it. So the finding that the file is missing is
        // certain only if no file of the database changed.
        let is_there = stamp(self).is_some();
        !is_same || !(is_there || (self.changed.is_empty() && self.stamps == previous.stamps))
    }
}

/// Returns the length and modification time of each file in the directories of a database.
fn stamps(storage: &dyn Storage, directory: &Path, options: &OpenOptions) -> Stamps {
    let database = options.database();
    let families = options.column_families().map(|name| &options.column_family(name).cf_paths);
    let tables = families.flatten().chain(&database.db_paths).map(|path| path.path.clone());
    let logs = Some(PathBuf::from(&database.wal_dir)).filter(|path| !path.as_os_str().is_empty());
    let directories: BTreeSet<PathBuf> = tables.chain(logs).chain([directory.to_owned()]).collect();
    let list = |directory: PathBuf| {
        let entries = storage.list(&directory).unwrap_or_default().into_iter();
        entries.map(move |entry| directory.join(entry.name))
    };
    let files = directories.into_iter().flat_map(list);
    files.filter_map(|path| stamp(storage, &path).map(|stamp| (path, stamp))).collect()
}
