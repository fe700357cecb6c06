//! How much space the tracked files take up, and how much they may.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The tracked files of all databases, and the limit of their total size.
#[derive(Debug, Default)]
pub(super) struct Space {
    files: HashMap<PathBuf, TrackedFile>,
    /// The sum of the sizes of `files`.
    total: u64,
    /// Estimated size of the outputs of running compactions.
    reserved: u64,
    /// Maximum of `total`; 0 means no limit.
    max_allowed: u64,
    /// Number of bytes below the limit that every compaction must leave.
    compaction_buffer: u64,
}

#[derive(Debug)]
struct TrackedFile {
    bytes: u64,
    /// The number of the opening of the database.
    opening: u64,
    is_trash: bool,
}

impl Space {
    pub(super) fn set_max_allowed(&mut self, bytes: u64) {
        self.max_allowed = bytes;
    }

    pub(super) fn set_compaction_buffer(&mut self, bytes: u64) {
        self.compaction_buffer = bytes;
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.files.iter().map(|(path, file)| (path.as_path(), file.bytes))
    }

    /// Tracks a file, or sets the size of a tracked one.
    pub(super) fn track(&mut self, path: &Path, bytes: u64, opening: u64) {
        self.insert(path, TrackedFile { bytes, opening, is_trash: false });
    }

    /// Tracks a file under its trash name. An untracked file, which is a log, gets the size 0.
    pub(super) fn move_to_trash(&mut self, from: &Path, to: &Path, opening: u64) {
        let bytes = self.untrack(from);
        self.insert(to, TrackedFile { bytes, opening, is_trash: true });
    }

    /// Whether a file is in the trash.
    pub(super) fn is_trash(&self, path: &Path) -> bool {
        self.files.get(path).is_some_and(|file| file.is_trash)
    }

    /// Ends the tracking of a file. Returns its size; 0 if it was not tracked.
    pub(super) fn untrack(&mut self, path: &Path) -> u64 {
        let bytes = self.files.remove(path).map_or(0, |file| file.bytes);
        self.total -= bytes;
        bytes
    }

    /// Ends the tracking of the files of a database that is closed, except its trash.
    pub(super) fn leave(&mut self, opening: u64) {
        self.files.retain(|_, file| file.opening != opening || file.is_trash);
        self.total = self.files.values().map(|file| file.bytes).sum();
    }

    /// Whether the total size has reached the limit.
    pub(super) fn is_reached(&self) -> bool {
        self.max_allowed > 0 && self.total >= self.max_allowed
    }

    /// Whether the total size, with what is reserved, has reached the limit.
    pub(super) fn is_reached_including_compactions(&self) -> bool {
        self.max_allowed > 0 && self.total.saturating_add(self.reserved) >= self.max_allowed
    }

    /// Reserves space for a compaction whose inputs have `bytes` in total: its outputs may be as
    /// large, and they exist beside the inputs. Returns false, and reserves nothing, if the
    /// compaction could exceed the limit.
    pub(super) fn reserve(&mut self, bytes: u64) -> bool {
        let parts = [self.total, self.reserved, bytes, self.compaction_buffer];
        let needed = parts.into_iter().fold(0, u64::saturating_add);
        let fits = self.max_allowed == 0 || needed <= self.max_allowed;
        if fits {
            self.reserved = self.reserved.saturating_add(bytes);
        }
        fits
    }

    /// Releases space that [`Self::reserve`] has reserved.
    pub(super) fn release(&mut self, bytes: u64) {
        self.reserved = self.reserved.saturating_sub(bytes);
    }

    fn insert(&mut self, path: &Path, file: TrackedFile) {
        self.total = self.total.saturating_add(file.bytes);
        let replaced = self.files.insert(path.to_owned(), file);
        self.total -= replaced.map_or(0, |file| file.bytes);
    }
}
