//! Checks of the logs that the MANIFEST records as synced.

use std::path::Path;

use tailwater_format::file_name::FileKind;
use tailwater_io::Storage;

use crate::error::{Error, Result};
use crate::version::manifest::DatabaseState;

/// Returns the length of a log in bytes; `None` if the log does not exist.
///
/// # Errors
/// I/O errors.
pub(crate) fn length_of(
    storage: &dyn Storage,
    directory: &Path,
    number: u64,
) -> Result<Option<u64>> {
    match storage.metadata(&directory.join(FileKind::Wal(number).to_string())) {
        Ok(metadata) => Ok(Some(metadata.length)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns an error for each log in `directory` that the MANIFEST records as synced and that does
/// not exist or is shorter than the recorded length. `length_of` returns the length of a log, like
/// the function above.
///
/// The logs are compared with the MANIFEST's list of synced logs even if option
/// `track_and_verify_wals_in_manifest` is off now. Entries of the list are never outdated. The
/// reason: an engine that opens the database for writing with this option off starts a new MANIFEST
/// with an empty list.
pub(crate) fn losses(
    manifest: &DatabaseState,
    directory: &Path,
    length_of: impl Fn(u64) -> Result<Option<u64>>,
) -> impl Iterator<Item = Error> {
    let recorded = manifest.synced_logs.range(manifest.min_log_number_to_keep..);
    recorded.filter_map(move |(&number, &size)| {
        let path = directory.join(FileKind::Wal(number).to_string());
        match length_of(number) {
            Err(error) => Some(error),
            Ok(None) => Some(Error::corruption(&path, "the log was synced, but is missing")),
            Ok(Some(length)) if length < size => {
                let message = format!("{size} bytes were synced, but it has {length}");
                Some(Error::corruption(&path, message))
            }
            Ok(Some(_)) => None,
        }
    })
}
