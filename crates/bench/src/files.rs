//! Small files that reports are made of, as JSON. They are whole or not there.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::memory_limit::interrupt::{Guard, on_interrupt};
use crate::store::Failure;

/// How often it is tried to remove a directory in which files are being made.
const REMOVALS: u32 = 100;

/// What a file says; nothing if it is not there.
///
/// # Errors
/// A file that cannot be read or says something else.
#[expect(clippy::disallowed_methods, reason = "no database's file")]
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display()).into()),
    };
    let value = serde_json::from_str(&text);
    value.map(Some).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Writes a file anew.
///
/// # Errors
/// Those of writing it.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    write_text(path, &text)
}

/// Writes a file anew.
///
/// # Errors
/// Those of writing it.
#[expect(clippy::disallowed_methods, reason = "no database's file")]
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    let unfinished = path.with_extension("unfinished");
    let written =
        std::fs::write(&unfinished, text).and_then(|()| std::fs::rename(&unfinished, path));
    written.map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Makes a directory and those above it.
///
/// # Errors
/// Those of making it.
#[expect(clippy::disallowed_methods, reason = "no database's directory")]
pub(crate) fn create_directory(path: &Path) -> Result<(), Failure> {
    let created = std::fs::create_dir_all(path);
    created.map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Has a directory removed at an interruption, until the guard is dropped.
///
/// # Errors
/// That something else in this process answers to interruptions.
pub(crate) fn remove_on_interrupt(path: &Path) -> Result<Guard, Failure> {
    let path = path.to_owned();
    on_interrupt(move || {
        // Threads may be making files there yet; without the directory they cannot go on.
        let is_removed = |_: &u32| remove_directory(&path).is_ok();
        let _ = (0..REMOVALS).find(is_removed);
    })
}

/// Removes a directory with all that is in it, if it is there.
///
/// # Errors
/// Those of removing it.
pub(crate) fn remove_directory(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", path.display()).into())
        }
        _ => Ok(()),
    }
}
