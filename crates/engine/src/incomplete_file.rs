//! New files that are removed again unless they are completed.

use std::path::Path;

use tailwater_io::Storage;

/// A file that the caller has created and not completed yet. Dropping this value removes the file.
///
/// Only the code that created a file may remove it after a failure: a creation also fails because
/// the file exists, and then the file belongs to somebody else.
#[must_use]
pub(crate) struct IncompleteFile<'a> {
    storage: &'a dyn Storage,
    path: &'a Path,
    is_complete: bool,
}

impl<'a> IncompleteFile<'a> {
    /// To be called when the file at `path` has been created.
    pub(crate) fn created(storage: &'a dyn Storage, path: &'a Path) -> Self {
        Self { storage, path, is_complete: false }
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
            let _ = self.storage.remove(self.path);
        }
    }
}
