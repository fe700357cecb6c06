//! The directories of a database: made where they are missing, and cleared of what is left over.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use tailwater_format::file_name::FileKind;
use tailwater_format::version_edit::VersionEdit;
use tailwater_io::{IoMode, Purpose, Storage};

use super::OpenOptions;
use crate::version::{set_current, write_manifest, write_whole};
use crate::{Error, Result};

/// The number of the first MANIFEST of a database.
const FIRST_MANIFEST: u64 = 1;

/// Makes a directory and those above it, each with its name on the device before the next.
///
/// A crash here is safe: of what is there then, only the name of the last that was made may not be
/// on the device, and that is where the next call begins.
pub(crate) fn create_directory(storage: &dyn Storage, directory: &Path) -> Result<()> {
    let mut missing: Vec<&Path> = Vec::new();
    for ancestor in directory.ancestors().filter(|ancestor| !ancestor.as_os_str().is_empty()) {
        if storage.metadata(ancestor).is_ok_and(|metadata| metadata.is_directory) {
            match sync_parent(storage, ancestor) {
                // Where nothing can be made, this is not what made it.
                Err(error) if is_refused(&error) => {}
                synced => synced?,
            }
            break;
        }
        missing.push(ancestor);
    }
    for created in missing.into_iter().rev() {
        storage.create_directory(created)?;
        sync_parent(storage, created)?;
    }
    Ok(())
}

/// Whether the system does not let anybody, or this user, write there.
fn is_refused(error: &tailwater_io::Error) -> bool {
    let kind = error.source.kind();
    matches!(kind, io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Puts a name on the device. The root has none.
pub(crate) fn sync_parent(storage: &dyn Storage, path: &Path) -> tailwater_io::Result<()> {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => storage.sync_directory(Path::new(".")),
        Some(parent) => storage.sync_directory(parent),
        None => Ok(()),
    }
}

/// A new name for a database, in the form of a random UUID.
pub(crate) fn new_identity() -> String {
    let random = fastrand::u128(..);
    // Version 4, variant 1.
    let bits = random & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// Makes an empty database in a directory: an IDENTITY, a MANIFEST, and CURRENT, which makes it
/// one.
pub(super) fn create_database(
    storage: &dyn Storage,
    directory: &Path,
    options: &OpenOptions,
) -> Result<()> {
    let database_id = new_identity();
    if options.database().write_identity_file {
        write_identity(storage, directory, &database_id)?;
    }
    let mut edits = Vec::new();
    if options.database().write_dbid_to_manifest {
        edits.push(VersionEdit { database_id: Some(database_id), ..VersionEdit::default() });
    }
    edits.push(VersionEdit {
        comparator: Some(options.comparator("default", "")?.name().to_owned()),
        log_number: Some(0),
        next_file_number: Some(FIRST_MANIFEST + 1),
        last_sequence: Some(0),
        ..VersionEdit::default()
    });
    write_manifest(storage, directory, FIRST_MANIFEST, &edits)?;
    // A crash here is safe: without CURRENT there is no database, and the next open makes it anew.
    set_current(storage, directory, FIRST_MANIFEST, FIRST_MANIFEST)
}

/// Writes the database's id to IDENTITY. Its name is on the device with that of CURRENT, which
/// every opening writes after it and before anything goes by the id.
pub(super) fn write_identity(storage: &dyn Storage, directory: &Path, id: &str) -> Result<()> {
    let aside = directory.join(FileKind::Temporary(0).to_string());
    write_whole(storage, &aside, id.as_bytes(), Purpose::Metadata)?;
    storage.rename(&aside, &directory.join(FileKind::Identity.to_string()))?;
    Ok(())
}

/// What IDENTITY says, if it is there.
pub(super) fn read_identity(storage: &dyn Storage, directory: &Path) -> Result<Option<String>> {
    /// Longer than any id, in bytes.
    const LENGTH_MAX: usize = 4096;
    let path = directory.join(FileKind::Identity.to_string());
    let file = match storage.open(&path, IoMode::Buffered, Purpose::Metadata) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut bytes = vec![0; LENGTH_MAX];
    let count = file.read_full_at(&mut bytes, 0, Purpose::Metadata)?;
    bytes.truncate(count);
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::corruption(&path, "an IDENTITY that is not UTF-8"))?;
    let id = text.trim_end();
    Ok((!id.is_empty()).then(|| id.to_owned()))
}

/// What a database consists of, for telling what is left over.
pub(super) struct Needed {
    /// Tables, by path.
    pub(super) tables: BTreeSet<PathBuf>,
    /// Blob files, by path.
    pub(super) blob_files: BTreeSet<PathBuf>,
    /// Logs from this number on.
    pub(super) oldest_log: u64,
    /// The directory of the logs.
    pub(super) log_directory: PathBuf,
    /// The MANIFEST that counts.
    pub(super) manifest: u64,
}

/// The highest number that a file in one of `directories` has.
pub(super) fn highest_number(storage: &dyn Storage, directories: &[PathBuf]) -> Result<u64> {
    let mut highest = 0;
    for directory in directories {
        for entry in storage.list(directory)? {
            let number = match FileKind::parse(&entry.name) {
                // Their numbers are times.
                Some(FileKind::OldInfoLog(_) | FileKind::CompactionProgress(_)) | None => None,
                Some(kind) => kind.number(),
            };
            highest = highest.max(number.unwrap_or(0));
        }
    }
    Ok(highest)
}

/// Removes what nothing refers to. Answers the names, and those that could not be removed with the
/// reason.
pub(super) fn remove_left_over(
    storage: &dyn Storage,
    directories: &[PathBuf],
    needed: &Needed,
) -> Result<Vec<(PathBuf, Option<Error>)>> {
    let mut removed = Vec::new();
    for directory in directories {
        for entry in storage.list(directory)?.into_iter().filter(|entry| !entry.is_directory) {
            let Some(kind) = FileKind::parse(&entry.name) else { continue };
            let path = directory.join(&entry.name);
            let is_needed = match kind {
                FileKind::Table(_) | FileKind::LevelDbTable(_) => needed.tables.contains(&path),
                FileKind::Blob(_) => needed.blob_files.contains(&path),
                FileKind::Wal(number) => {
                    number >= needed.oldest_log || *directory != needed.log_directory
                }
                FileKind::Manifest(number) => number == needed.manifest,
                FileKind::Temporary(_)
                | FileKind::TemporaryOptions(_)
                | FileKind::TemporaryCompactionProgress(_)
                | FileKind::CompactionProgress(_) => false,
                _ => true,
            };
            if !is_needed {
                let failure = storage.remove(&path).err().map(Error::from);
                removed.push((path, failure));
            }
        }
    }
    Ok(removed)
}
