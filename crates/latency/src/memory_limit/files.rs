//! Accesses the kernel's settings files and cgroups. It does not use a `Storage`, which is only for
//! files of a database.
#![expect(clippy::disallowed_methods, reason = "accesses kernel settings, not a database's files")]

use std::io;
use std::path::Path;

/// Writes a settings file with one write call, as the kernel requires.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    std::fs::write(path, text).map_err(|error| naming(path, error))
}

/// Writes a settings file, but does not create it if it does not exist.
pub(super) fn write_existing(path: &Path, text: &str) -> io::Result<()> {
    if path.exists() { write(path, text) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Returns the text of a settings file; `None` if it cannot be read.
pub(super) fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Creates a cgroup by creating its directory.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir(path).map_err(|error| naming(path, error))
}

/// Removes a cgroup by removing its directory.
pub(super) fn remove_directory(path: &Path) -> io::Result<()> {
    std::fs::remove_dir(path)
}

/// Returns the paths of all files below a directory.
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

/// Adds the path of the file to an error.
fn naming(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
