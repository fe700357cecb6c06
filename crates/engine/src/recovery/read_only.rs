//! Recovery for reading. Another process may write the database meanwhile: it flushes, compacts,
//! switches logs, removes files that became obsolete, and replaces the MANIFEST.
//!
//! The result is the state of the database at one point in time, found in these steps:
//!
//! 1. The MANIFEST is read up to its end, and the options are loaded if the caller asks for that.
//! 2. The directories are listed, and the logs that are needed are opened. Their contents up to
//!    their present lengths belong to the state.
//! 3. The MANIFEST is read on. If only flushes and compactions were recorded since step 1, and no
//!    log became obsolete, the state of step 1 and the logs together have all writes up to step 2,
//!    as they would after a crash.
//! 4. The files that the state names are searched, and opened as far as the limit of open files
//!    permits. An open file can be read even after its removal.
//! 5. The logs are replayed into memtables.
//!
//! If step 3 finds any other change, or if a later step finds that a file has disappeared and the
//! MANIFEST has changed, the steps are repeated from step 2 with the newest state. The MANIFEST is
//! only read on, and tables stay open, so each repetition takes little time.
//!
//! An error is returned only if it cannot be the result of a concurrent change: either the MANIFEST
//! did not change, or, for the end of a log that another process may be writing, a second attempt
//! finds the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use tailwater_format::file_name::FileKind;
use tailwater_io::Purpose;

use super::manifest::{home, no_database};
use super::wal_replay::open_tables;
use super::{DirectoriesFound, FilesFound, LogsReplayed, ManifestRead, Unrecovered};
use crate::column_family::{FamilyReaders, ReaderFactory};
use crate::directory::Files;
use crate::error::{Error, ErrorKind, Result};
use crate::open_options::OpenOptions;
use crate::version::manifest::Manifest;
use crate::version::manifest_tail::{Change, ManifestTail};
use crate::wal::replay::Log;

/// Maximum number of attempts to find a state of the database while another process writes it.
const ATTEMPTS: usize = 256;

/// Recovers a database for reading, in its state at some point in time during this call.
///
/// # Errors
/// The errors of [`crate::Db::open_read_only`].
pub(crate) fn recover_read_only(directory: &Path, options: &OpenOptions) -> Result<LogsReplayed> {
    let mut database = Followed::open(directory, options)?;
    for _ in 0..ATTEMPTS {
        match database.attempt()? {
            Attempt::Succeeded(recovered) => return Ok(*recovered),
            Attempt::Overtaken => {}
            Attempt::Replaced => database = Followed::open(directory, options)?,
        }
    }
    let message = "the database changes faster than it can be opened";
    Err(Error::new(ErrorKind::Busy, message).in_file(directory))
}

/// The outcome of an attempt to find a state of the database.
enum Attempt {
    Succeeded(Box<LogsReplayed>),
    /// The database changed during the attempt.
    Overtaken,
    /// The database has another MANIFEST or new column families, and must be opened anew.
    Replaced,
}

/// A database that is being opened for reading, and what is kept from one attempt to the next.
struct Followed {
    unrecovered: Unrecovered,
    manifest: ManifestTail,
    /// The column families that existed when the options were loaded.
    families: BTreeSet<u32>,
    factory: Arc<ReaderFactory>,
    /// The readers of column families, by id. The tables that they have opened stay open.
    readers: BTreeMap<u32, Arc<FamilyReaders>>,
    /// The problems that the last attempt found in the logs.
    problems: Option<String>,
}

impl Followed {
    fn open(directory: &Path, options: &OpenOptions) -> Result<Self> {
        let storage = &**options.storage();
        let home = home(storage, directory)?;
        let manifest = ManifestTail::open(storage, &home.path)
            .map_err(|error| if error.is_not_found() { no_database(&home.path) } else { error })?;
        let state = manifest.state()?;
        let options = options.loaded(directory, Some(&state))?;
        let unrecovered = Unrecovered::new(directory, &options)?;
        let Unrecovered { home, options, io_modes, .. } = &unrecovered;
        let factory = Arc::new(ReaderFactory::new(&home.path, options, Arc::clone(io_modes)));
        Ok(Self {
            families: state.families.into_keys().collect(),
            manifest,
            factory,
            readers: BTreeMap::new(),
            problems: None,
            unrecovered,
        })
    }

    /// Makes one attempt to find the current state of the database.
    fn attempt(&mut self) -> Result<Attempt> {
        let state = self.manifest.state()?;
        if state.families.keys().any(|id| !self.families.contains(id)) {
            return Ok(Attempt::Replaced);
        }
        let listed = self.list(state);
        let change = self.manifest.follow(&*self.unrecovered.storage)?;
        let (directories, logs) = match (change, listed) {
            (Change::Replaced, _) => return Ok(Attempt::Replaced),
            (Change::Nothing | Change::Tables, Ok(listed)) => listed,
            (Change::Nothing, Err(error)) => return Err(error),
            (_, Err(error)) if error.is_out_of_descriptors() => return Err(error),
            _ => return Ok(Attempt::Overtaken),
        };
        let error = match self.recover(directories, logs) {
            Ok(Some(recovered)) => return self.checked(recovered),
            Ok(None) => None,
            Err(error) if error.is_out_of_descriptors() => return Err(error),
            Err(error) => Some(error),
        };
        match (self.manifest.follow(&*self.unrecovered.storage)?, error) {
            (Change::Replaced, _) => Ok(Attempt::Replaced),
            (Change::Nothing, Some(error)) if change == Change::Nothing => {
                if is_about_log(&error) && !self.is_known(error.to_string()) {
                    return Ok(Attempt::Overtaken);
                }
                Err(error)
            }
            _ => Ok(Attempt::Overtaken),
        }
    }

    /// Lists the directories, and opens the logs that are needed.
    fn list(&self, manifest: Manifest) -> Result<(DirectoriesFound, Vec<Log>)> {
        let home = &self.unrecovered.home.path;
        // Lengths are not requested: reading those of very many tables takes so long that the
        // database may change meanwhile.
        let home_files = Some(Files::list(&*self.unrecovered.storage, home)?);
        let unrecovered = Unrecovered { home_files, ..self.unrecovered.clone() };
        let directories = ManifestRead { unrecovered, manifest }.find_directories()?;
        let logs = directories.open_logs()?;
        Ok((directories, logs))
    }

    /// Opens the files of a state, and replays its logs. Returns `None` if a table or blob file has
    /// disappeared.
    fn recover(
        &mut self,
        directories: DirectoriesFound,
        logs: Vec<Log>,
    ) -> Result<Option<LogsReplayed>> {
        let found = directories.find_files()?;
        let length_of = |number| logs.iter().find(|log| log.number == number).map(|log| log.length);
        found.check_synced(|number| Ok(length_of(number)))?;
        let options = &found.unrecovered.options;
        let readers: Vec<Arc<FamilyReaders>> = found
            .families
            .iter()
            .map(|family| {
                let make = || self.factory.readers(options, &family.name, &family.comparator);
                Arc::clone(self.readers.entry(family.id).or_insert_with(|| Arc::new(make())))
            })
            .collect();
        if options.database().max_open_files == -1 && is_any_missing(&found, &readers)? {
            return Ok(None);
        }
        let logs = logs.into_iter().map(Ok);
        found.replay(Arc::clone(&self.factory), readers, logs, None).map(Some)
    }

    /// Checks that the state is that of one point in time, and what the logs contained. A log whose
    /// file was preallocated or recycled may be longer than its contents. Then the replay also
    /// finds what was written after the log was opened, which may depend on changes that the state
    /// lacks; and if the log became obsolete, its file may have been overwritten with a later log.
    /// A problem at the end of a log may be a write in progress.
    fn checked(&mut self, recovered: LogsReplayed) -> Result<Attempt> {
        match self.manifest.follow(&*self.unrecovered.storage)? {
            Change::Replaced => return Ok(Attempt::Replaced),
            Change::Other => return Ok(Attempt::Overtaken),
            Change::Nothing | Change::Tables => {}
        }
        if recovered.left_out.is_empty() || self.is_known(format!("{:?}", recovered.left_out)) {
            return Ok(Attempt::Succeeded(Box::new(recovered)));
        }
        Ok(Attempt::Overtaken)
    }

    /// Whether the last attempt found the same problems. Notes the problems for the next attempt.
    fn is_known(&mut self, problems: String) -> bool {
        self.problems.replace(problems.clone()) == Some(problems)
    }
}

/// Whether an error is about the contents of a log.
fn is_about_log(error: &Error) -> bool {
    let name = error.path().and_then(Path::file_name).map(|name| name.to_string_lossy());
    let kind = name.and_then(|name| FileKind::parse(&name));
    error.is_corruption() && matches!(kind, Some(FileKind::Wal(_)))
}

/// Opens the tables and blob files of a database, up to the numbers that may stay open. Returns
/// whether one of them does not exist.
fn is_any_missing(found: &FilesFound, readers: &[Arc<FamilyReaders>]) -> Result<bool> {
    let mut is_any_missing = false;
    let mut opened = 0;
    for (family, readers) in found.families.iter().zip(readers) {
        is_any_missing |= open_tables(&readers.tables, &family.version, &mut opened)?;
        let numbers = family.version.blob_files().keys().take(readers.blobs.open_max());
        for &number in numbers {
            let opened = readers.blobs.open(number, Purpose::UserBlobRead);
            is_any_missing |= opened.is_err_and(|error| error.is_not_found());
        }
    }
    Ok(is_any_missing)
}
