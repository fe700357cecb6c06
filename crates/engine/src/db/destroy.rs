//! Destroying a database: every file that is one of its own goes, and nothing else.

use std::path::Path;

use tailwater_format::file_name::FileKind;
use tailwater_io::Storage;

use crate::recovery::OpenOptions;
use crate::{Error, Result};

/// Removes the database in `directory`, and the directories that are empty then.
///
/// CURRENT goes first, so that what a crash leaves is no database; LOCK goes last.
pub(crate) fn destroy(directory: &Path, options: &OpenOptions) -> Result<()> {
    let storage = &**options.storage();
    match storage.metadata(directory) {
        Ok(_) => {}
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    let lock_path = directory.join(FileKind::Lock.to_string());
    let lock = storage.lock(&lock_path).map_err(|error| {
        Error::from(error).while_doing("the database is open for writing elsewhere, or cannot be")
    })?;
    let current = directory.join(FileKind::Current.to_string());
    remove_if_there(storage, &current)?;
    storage.sync_directory(directory)?;
    let mut directories = vec![directory.to_owned(), options.wal_directory(directory)];
    for name in options.column_families().chain(["default"]) {
        directories.extend(options.table_directories(directory, name));
        directories.push(options.blob_directory(directory, name));
    }
    directories.push(directory.join("lost"));
    directories.sort_unstable();
    directories.dedup();
    for one in &directories {
        remove_files(storage, one, &lock_path)?;
    }
    drop(lock);
    remove_if_there(storage, &lock_path)?;
    // The database's own last: the others may be inside it.
    for one in directories.iter().filter(|one| *one != directory).chain([&directory.to_owned()]) {
        // One that holds something else stays.
        let _ = storage.remove_directory(one);
    }
    Ok(())
}

/// Removes the files in a directory that are a database's.
fn remove_files(storage: &dyn Storage, directory: &Path, lock: &Path) -> Result<()> {
    let entries = match storage.list(directory) {
        Ok(entries) => entries,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for entry in entries.into_iter().filter(|entry| !entry.is_directory) {
        let path = directory.join(&entry.name);
        if FileKind::parse(&entry.name).is_some() && path != *lock {
            storage.remove(&path)?;
        }
    }
    Ok(())
}

fn remove_if_there(storage: &dyn Storage, path: &Path) -> Result<()> {
    match storage.remove(path) {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}
