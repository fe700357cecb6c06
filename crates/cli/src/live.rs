//! Distinguishes damage from concurrent writes of another process.
//!
//! Verbs that only read do not take the database's lock, so files may appear, grow and disappear
//! while they are read. A finding is not reported as damage if its file changed during the read, or
//! if another process that has the database open may still append to the file.

use std::path::{Path, PathBuf};

use tailwater::inspect::manifest;
use tailwater_format::file_name::FileKind;
use tailwater_io::posix::PosixStorage;
use tailwater_io::{FileMetadata, Storage};

use crate::files::storage;
use crate::outcome::{Failure, Outcome, Result};
use crate::output::{Output, complain, say};

/// The length and modification time of a file; `None` if it does not exist.
pub(crate) type Stamp = Option<FileMetadata>;

/// Returns the current length and modification time of a file.
pub(crate) fn stamp(storage: &dyn Storage, path: &Path) -> Stamp {
    storage.metadata(path).ok()
}

/// Prints files one after the other, with an empty line between them. `are_listed` says that the
/// files were listed in a directory, see [`read_listed`]. If `ends_at_error` is false and there are
/// several files, an error of the engine is reported, and the remaining files are still printed,
/// because they may be intact.
pub(crate) fn print_files(
    paths: &[PathBuf],
    are_listed: bool,
    ends_at_error: bool,
    output: &mut Output,
    mut print: impl FnMut(&dyn Storage, &Path, &mut Output) -> Result<Outcome>,
) -> Result<Outcome> {
    let storage = &*storage();
    let mut outcome = Outcome::Well;
    for (index, path) in paths.iter().enumerate() {
        if index > 0 && !output.is_json() {
            output.line("")?;
        }
        let mut read = || print(storage, path, output);
        let answer = if are_listed { read_listed(storage, path, read) } else { read() };
        outcome = outcome.and(match answer {
            Err(Failure::Engine(error)) if !ends_at_error && paths.len() > 1 => {
                complain(&error);
                Outcome::Damage
            }
            answer => answer?,
        });
    }
    Ok(outcome)
}

/// Calls `read`, which reads the file at `path`, one of the files listed in a directory. If `read`
/// fails, and another process has removed the file since the directory was listed, returns success.
/// If `read` finds damage in a file that another process is writing, returns
/// [`Outcome::BeingWritten`].
fn read_listed(
    storage: &dyn Storage,
    path: &Path,
    read: impl FnOnce() -> Result<Outcome>,
) -> Result<Outcome> {
    let before = stamp(storage, path);
    let answer = read();
    let is_gone = || storage.metadata(path).is_err_and(|error| error.is_not_found());
    match answer {
        Err(Failure::Engine(_)) if is_gone() => {
            say(format_args!("tailwater: {}: it was removed by another process", path.display()));
            Ok(Outcome::Well)
        }
        Err(Failure::Engine(error)) if is_being_written(storage, path, before) => {
            complain(&format_args!("{error}; another process is writing it"));
            Ok(Outcome::BeingWritten)
        }
        Ok(Outcome::TornTail | Outcome::Damage) if is_being_written(storage, path, before) => {
            say(format_args!("tailwater: {}: another process is writing it", path.display()));
            Ok(Outcome::BeingWritten)
        }
        answer => answer,
    }
}

/// Returns whether another process may be writing a file, or wrote to it after `before` was taken.
/// `before` is the file's stamp before the file was read.
fn is_being_written(storage: &dyn Storage, path: &Path, before: Stamp) -> bool {
    let directory = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let may_grow = is_open_elsewhere(directory) && is_unfinished(storage, directory, name);
    // `may_grow` must be determined before this second stamp is taken. If the other process
    // completes the file before `may_grow` is determined, `may_grow` is false, but the stamp
    // differs from `before`.
    may_grow || stamp(storage, path) != before
}

/// Returns whether another process has the database in a directory open for writing.
pub(crate) fn is_open_elsewhere(directory: &Path) -> bool {
    let lock = directory.join(FileKind::Lock.to_string());
    PosixStorage::new().is_locked(&lock).unwrap_or(false)
}

/// Returns whether a file of a database that another process has open may still grow. This is so
/// for the newest log, and for tables and blob files that the MANIFEST does not yet name.
fn is_unfinished(storage: &dyn Storage, directory: &Path, name: &str) -> bool {
    let kind = FileKind::parse(name);
    if let Some(FileKind::Wal(number)) = kind {
        let entries = storage.list(directory).unwrap_or_default();
        return !entries.iter().any(|entry| {
            matches!(FileKind::parse(&entry.name), Some(FileKind::Wal(other)) if other > number)
        });
    }
    // If the MANIFEST cannot be read, the process that has the database open may be replacing the
    // MANIFEST. In this case, the file counts as unfinished.
    let Ok(state) = manifest::current_state(storage, directory) else { return true };
    let mut families = state.column_families.iter();
    match kind {
        Some(FileKind::Table(number) | FileKind::LevelDbTable(number)) => {
            !families.any(|family| family.levels.iter().flatten().any(|it| it.number == number))
        }
        Some(FileKind::Blob(number)) => {
            !families.any(|family| family.blob_files.iter().any(|it| it.added.number == number))
        }
        _ => false,
    }
}
