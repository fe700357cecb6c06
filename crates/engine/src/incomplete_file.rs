//! New files that are removed again unless they are completed.

use std::path::{Path, PathBuf};

use tailwater_io::Storage;

/// A file that the caller has created and not completed yet. Dropping this value removes the file.
///
/// Only the code that created a file may remove it after a failure: a creation also fails because
/// the file exists, and then the file belongs to somebody else.
#[must_use]
pub(crate) struct IncompleteFile<'a> {
    storage: &'a dyn Storage,
    path: PathBuf,
    is_complete: bool,
}

impl<'a> IncompleteFile<'a> {
    /// To be called when the file at `path` has been created.
    pub(crate) fn created(storage: &'a dyn Storage, path: impl Into<PathBuf>) -> Self {
        Self { storage, path: path.into(), is_complete: false }
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the file.
    pub(crate) fn complete(mut self) {
        self.is_complete = true;
    }
}

impl Drop for IncompleteFile<'_> {
    fn drop(&mut self) {
        if !self.is_complete {
            // Nothing refers to the file; if its removal fails, the next open removes it.
            let _ = self.storage.remove(&self.path);
        }
    }
}
