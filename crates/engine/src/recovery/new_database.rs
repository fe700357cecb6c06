//! Creation of an empty database.

use std::path::Path;

use tailwater_format::version_edit::VersionEdit;
use tailwater_io::{Create, Storage};

use crate::directory::write_identity;
use crate::error::Result;
use crate::open_options::OpenOptions;
use crate::version::{set_current, write_manifest};

/// The number of the first MANIFEST of a database.
const FIRST_MANIFEST: u64 = 1;

/// Creates an empty database in a directory. Writes an IDENTITY with `database_id`, then a
/// MANIFEST, and finally CURRENT. Only with CURRENT is the directory a database.
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
    // If the file exists, an earlier attempt to create the database ended before CURRENT named it.
    write_manifest(storage, directory, Create::Truncate, FIRST_MANIFEST, &edits)?;
    // A crash before this is safe: without CURRENT there is no database, and the next open creates
    // it again.
    set_current(storage, directory, FIRST_MANIFEST, FIRST_MANIFEST)
}
