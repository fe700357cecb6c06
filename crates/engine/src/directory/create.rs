//! Creating directories so that a crash does not lose their names.

use std::io;
use std::path::Path;

use tailwater_io::Storage;

use crate::error::Result;

/// Creates a directory and its missing parents. The name of each is synced before the next one is
/// created inside it.
///
/// A crash here is safe: of the directories that exist afterwards, only the innermost may have a
/// name that is not yet durable, and the next call begins by syncing that name.
pub(crate) fn create_directory(storage: &dyn Storage, directory: &Path) -> Result<()> {
    let mut missing: Vec<&Path> = Vec::new();
    for ancestor in directory.ancestors().filter(|ancestor| !ancestor.as_os_str().is_empty()) {
        if storage.metadata(ancestor).is_ok_and(|metadata| metadata.is_directory) {
            match sync_parent(storage, ancestor) {
                // If writes to the parent directory are refused, no earlier call can have created
                // the directory in it. So the directory's name need not be synced.
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

/// Whether the error is that this user may not write, or that the filesystem is read-only.
fn is_refused(error: &tailwater_io::Error) -> bool {
    let kind = error.source.kind();
    matches!(kind, io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Makes the name of a file or directory durable, by syncing its parent directory. The root
/// directory has no name.
pub(crate) fn sync_parent(storage: &dyn Storage, path: &Path) -> tailwater_io::Result<()> {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => storage.sync_directory(Path::new(".")),
        Some(parent) => storage.sync_directory(parent),
        None => Ok(()),
    }
}
