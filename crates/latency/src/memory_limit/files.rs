//! Accesses the files by which the kernel is configured, without a `Storage`, because a `Storage`
//! is for databases.
#![expect(clippy::disallowed_methods, reason = "accesses kernel settings, not a database's files")]

use std::io;
use std::path::Path;

/// Writes a setting in one call, as the kernel requires.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    std::fs::write(path, text).map_err(|error| naming(path, error))
}

/// Writes an existing setting.
pub(super) fn write_existing(path: &Path, text: &str) -> io::Result<()> {
    if path.exists() { write(path, text) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Returns a setting's text, if it can be read.
pub(super) fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Creates a cgroup, which is a directory.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir(path).map_err(|error| naming(path, error))
}

/// Removes a cgroup.
pub(super) fn remove_directory(path: &Path) -> io::Result<()> {
    std::fs::remove_dir(path)
}

/// Returns all files below a directory.
pub(super) fn all_below(directory: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => files.extend(all_below(&entry.path())?),
            kind if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    Ok(files)
}

/// Returns the error with the file's name.
fn naming(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
