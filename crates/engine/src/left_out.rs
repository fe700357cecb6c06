//! Parts of a database's files that are ignored when the database is opened.

use std::path::PathBuf;

/// A part of a log or MANIFEST that was ignored, or a log that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// Path of the log or MANIFEST that has the ignored part, or of the missing log.
    pub path: PathBuf,
    /// Offset in the file at which the ignored part starts, in bytes. 0 for a missing log.
    pub offset: u64,
    /// Length of the ignored part in bytes. The part ends at the end of the file, or at the next
    /// record that was used. 0 for a missing log.
    pub bytes: u64,
    /// The reason why this part of the log or MANIFEST was ignored.
    pub reason: String,
    /// Whether the ignored part is an incomplete record, or an incomplete group of MANIFEST edits,
    /// at the end of the last log or of the MANIFEST. A crash during a write leaves such a part.
    pub torn_tail: bool,
}
