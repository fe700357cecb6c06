//! Creation of an empty database, and database IDs.

use std::path::Path;

use tailwater_format::file_name::FileKind;
use tailwater_format::version_edit::VersionEdit;
use tailwater_io::{IoMode, Purpose, Storage};

use super::OpenOptions;
use crate::version::{set_current, write_manifest, write_whole};
use crate::{Error, Result};

/// The number of the first MANIFEST of a database.
const FIRST_MANIFEST: u64 = 1;

/// Returns a new database ID, a random UUID.
pub(crate) fn new_identity() -> String {
    let random = fastrand::u128(..);
    // Version 4, variant 1.
    let bits = random & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// Creates an empty database with ID `database_id` in a directory: an IDENTITY, a MANIFEST, and
/// then CURRENT, which makes it a database.
pub(super) fn create_database(
    storage: &dyn Storage,
    directory: &Path,
    options: &OpenOptions,
    database_id: String,
) -> Result<()> {
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
    // A crash here is safe: without CURRENT there is no database, and the next open creates it
    // again.
    set_current(storage, directory, FIRST_MANIFEST, FIRST_MANIFEST)
}

/// Writes the database's ID to IDENTITY. Its directory entry is synced with that of CURRENT, which
/// every opening writes afterwards and before anything depends on the ID.
pub(super) fn write_identity(storage: &dyn Storage, directory: &Path, id: &str) -> Result<()> {
    let aside = directory.join(FileKind::Temporary(0).to_string());
    write_whole(storage, &aside, id.as_bytes(), Purpose::Metadata)?;
    storage.rename(&aside, &directory.join(FileKind::Identity.to_string()))?;
    Ok(())
}

/// Returns the content of IDENTITY, if it exists.
pub(super) fn read_identity(storage: &dyn Storage, directory: &Path) -> Result<Option<String>> {
    /// Upper bound of the length of an ID, in bytes.
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

/// Returns the database ID that persists across openings, if there is one. `in_manifest` is the ID
/// in the MANIFEST.
pub(crate) fn durable_id(
    storage: &dyn Storage,
    directory: &Path,
    in_manifest: Option<&str>,
) -> Result<Option<String>> {
    match in_manifest {
        Some(id) => Ok(Some(id.to_owned())),
        None => read_identity(storage, directory),
    }
}
