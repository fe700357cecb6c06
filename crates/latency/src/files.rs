//! Reads and writes small files, such as reports. A write replaces the whole file atomically.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use tempfile::TempDir;

use crate::failure::Failure;
use crate::memory_limit::interrupt::{Guard, on_interrupt};

/// Number of attempts to remove a directory while threads may still be creating files in it.
const REMOVALS: u32 = 100;

/// Reads and parses a JSON file; `None` if it does not exist.
///
/// # Errors
/// If the file exists but cannot be read or parsed.
#[expect(clippy::disallowed_methods, reason = "not a database's file")]
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display()).into()),
    };
    let value = serde_json::from_str(&text);
    value.map(Some).map_err(|error| format!("{}: {error}", path.display()).into())
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
#[expect(clippy::disallowed_methods, reason = "not a database's file")]
pub fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    let unfinished = path.with_extension("unfinished");
    let written =
        std::fs::write(&unfinished, text).and_then(|()| std::fs::rename(&unfinished, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    written.map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Creates a directory and its parents.
///
/// # Errors
/// Errors from creating the directory.
#[expect(clippy::disallowed_methods, reason = "not a database's directory")]
pub fn create_directory(path: &Path) -> Result<(), Failure> {
    let created = std::fs::create_dir_all(path);
    created.map_err(|error| format!("{}: {error}", path.display()).into())
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
            let is_removed = |_: &u32| remove_temporary(&path);
            let _ = (0..REMOVALS).find(is_removed);
        })?;
        Ok(Self { directory, _on_interrupt })
    }

    /// Returns the directory's path.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

fn remove_temporary(path: &Path) -> bool {
    std::fs::remove_dir_all(path).is_ok()
}
