//! Parts of a database's files that are ignored when the database is opened.

use std::path::PathBuf;

/// A part of a log or MANIFEST that was ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The log or MANIFEST.
    pub path: PathBuf,
    /// Start of the part, in bytes from the start of the file.
    pub offset: u64,
    /// Length of the part in bytes. It ends at the end of the log, or at the next record that was
    /// used.
    pub bytes: u64,
    /// The reason why the part was ignored.
    pub reason: String,
    /// Whether the part is only an incomplete record, or an incomplete group of MANIFEST edits, at
    /// the end of the last file, as a crash leaves it.
    pub torn_tail: bool,
}
