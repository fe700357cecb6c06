//! Parts of a database's files that opening the database leaves out.

use std::path::PathBuf;

/// A part of a log or MANIFEST that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The log or MANIFEST.
    pub path: PathBuf,
    /// Start of the part, in bytes from the start of the file.
    pub offset: u64,
    /// Length of the part in bytes, up to the end of the log or the next record that was used.
    pub bytes: u64,
    /// The reason.
    pub reason: String,
    /// Whether it is only a record, or a group of MANIFEST edits, cut short by the end of the last
    /// file, as after a crash.
    pub torn_tail: bool,
}
