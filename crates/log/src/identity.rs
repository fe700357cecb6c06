//! The identity of a log: a file in its directory with the version of the format and the log's id.
//!
//! A directory that contains other files but no identity is not a log. It is never written to.

use std::path::Path;

use tailwater_io::{Create, IoMode, Purpose, Storage};

use crate::layout::{IDENTITY, LOCK};
use crate::{Error, ErrorKind, Result};

/// First line of the identity file. The number is the version of the format.
const HEADING: &str = "TAILWATER-LOG 1";
/// At most this many bytes are read of the identity file.
const LENGTH_MAX: u64 = 4096;

/// Returns the id of the log in a directory; `None` if the directory has no identity file.
///
/// # Errors
/// Not supported, if the log has another version of the format; corruption, if the file is not an
/// identity; I/O errors.
pub(crate) fn read(storage: &dyn Storage, directory: &Path) -> Result<Option<u128>> {
    let path = directory.join(IDENTITY);
    let Some(bytes) = storage.read_if_exists(&path, LENGTH_MAX, Purpose::Metadata)? else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    match lines.next() {
        Some(HEADING) => {}
        Some(other) if other.starts_with("TAILWATER-LOG ") => {
            let message = format!("{} has format '{other}'", directory.display());
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        _ => {
            return Err(Error::corruption(&path, 0, format!("it does not begin with '{HEADING}'")));
        }
    }
    let id = lines.next().and_then(|line| line.strip_prefix("id "));
    let id = id.and_then(|id| u128::from_str_radix(id, 16).ok());
    id.map(Some).ok_or_else(|| Error::corruption(&path, HEADING.len() as u64, "it has no id"))
}

/// Returns the id of the log in a directory.
///
/// # Errors
/// Not found, if the directory does not exist or contains no log; the errors of [`read`].
pub(crate) fn read_existing(storage: &dyn Storage, directory: &Path) -> Result<u128> {
    read(storage, directory)?.ok_or_else(|| missing(directory))
}

/// Creates the error for a directory without a log.
pub(crate) fn missing(directory: &Path) -> Error {
    Error::not_found(format!("{} has no message log", directory.display()))
}

/// Creates a log in a directory, by writing its identity. Returns the log's id.
///
/// # Errors
/// Invalid argument, if the directory contains other files; I/O errors.
pub(crate) fn create(storage: &dyn Storage, directory: &Path, id: u128) -> Result<u128> {
    let others = storage.list(directory)?;
    let temporary_name = format!("{IDENTITY}.tmp");
    // A process that created the log may have died before it renamed the temporary file.
    let is_other = |name: &str| name != LOCK && name != temporary_name;
    let other = others.iter().find(|entry| is_other(&entry.name));
    if let Some(other) = other {
        let message = format!(
            "{} is not a Tailwater message log and is not empty: it contains '{}'",
            directory.display(),
            other.name
        );
        return Err(Error::invalid(message));
    }
    let path = directory.join(IDENTITY);
    let temporary = directory.join(temporary_name);
    let text = format!("{HEADING}\nid {id:032x}\n");
    let mode = IoMode::Buffered;
    let mut file = storage.create(&temporary, Create::Truncate, mode, Purpose::Metadata)?;
    file.write_all_at(text.as_bytes(), 0, Purpose::Metadata)?;
    file.sync_all(Purpose::Metadata)?;
    // A crash before the rename is safe: the temporary file alone does not make the directory a
    // log.
    storage.rename(&temporary, &path)?;
    storage.sync_directory(directory)?;
    Ok(id)
}
