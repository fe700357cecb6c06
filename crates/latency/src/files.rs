//! Files that are not a database's: reports, kernel settings, cgroups and temporary directories.
//! Errors name the file. A report is replaced atomically.
#![expect(clippy::disallowed_methods, reason = "not a database's files")]

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::failure::Failure;
use crate::memory_limit::interrupt::{Guard, on_interrupt};

/// Number of attempts to remove a directory while threads may still be creating files in it.
const REMOVALS: u32 = 100;

/// Adds a path to an error.
pub(crate) fn named<T>(path: &Path, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Reads and parses a JSON file; `None` if it does not exist.
///
/// # Errors
/// If the file exists but cannot be read or parsed.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        text => {
            Ok(Some(named(path, serde_json::from_str(&named(path, text)?).map_err(Into::into))?))
        }
    }
}

/// Writes a value as JSON to a file, which is replaced if it exists.
///
/// # Errors
/// Errors from writing the file.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    write_text(path, &text)
}

/// Writes a text to a file, which is replaced if it exists.
///
/// # Errors
/// Errors from writing the file.
pub fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    let unfinished = unfinished(path);
    let written =
        std::fs::write(&unfinished, text).and_then(|()| std::fs::rename(&unfinished, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    Ok(named(path, written)?)
}

/// Returns the path at which [`write_text`] writes a file before it renames it.
pub(crate) fn unfinished(path: &Path) -> PathBuf {
    path.with_extension("unfinished")
}

/// Creates a directory and its parents.
///
/// # Errors
/// Errors from creating the directory.
pub fn create_directory(path: &Path) -> Result<(), Failure> {
    Ok(named(path, std::fs::create_dir_all(path))?)
}

/// Renames a directory.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    named(from, std::fs::rename(from, to))
}

/// Writes a file of the kernel with one write call, as the kernel requires.
pub(crate) fn write_setting(path: &Path, text: &str) -> io::Result<()> {
    named(path, std::fs::write(path, text))
}

/// Creates a cgroup by creating its directory.
pub(crate) fn create_group(path: &Path) -> io::Result<()> {
    named(path, std::fs::create_dir(path))
}

/// Removes a cgroup by removing its directory.
pub(crate) fn remove_group(path: &Path) -> io::Result<()> {
    std::fs::remove_dir(path)
}

/// Returns the text of a file of the kernel or of an engine's LOG; `None` if it cannot be read.
pub(crate) fn read_text(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Returns the paths of all files below a directory.
///
/// # Errors
/// Errors from listing the directories.
pub fn all_below(directory: &Path) -> io::Result<Vec<PathBuf>> {
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

/// A temporary directory, which is removed when the value is dropped or the program is interrupted.
#[derive(Debug)]
pub struct Temporary {
    directory: TempDir,
    _on_interrupt: Guard,
}

impl Temporary {
    /// Makes sure that an existing temporary directory is also removed at an interruption.
    ///
    /// # Errors
    /// If this process already has another interrupt handler.
    pub fn new(directory: TempDir) -> Result<Self, Failure> {
        let path = directory.path().to_owned();
        let _on_interrupt = on_interrupt(move || {
            // Removing the directory fails if a thread creates a file in it meanwhile, so try
            // again. After a successful removal, threads can no longer create files in it.
            let _ = (0..REMOVALS).find(|_| std::fs::remove_dir_all(&path).is_ok());
        })?;
        Ok(Self { directory, _on_interrupt })
    }

    /// Returns the directory's path.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}
