//! A blob file, as the MANIFEST knows it.

use tailwater_format::version_edit::BlobFileAddition;

/// A blob file, as the MANIFEST knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlobFileMetadata {
    /// What was said when it was added.
    pub(crate) added: BlobFileAddition,
    /// How many of its blobs nothing refers to any more.
    pub(crate) garbage_count: u64,
    /// How many bytes those take.
    pub(crate) garbage_bytes: u64,
}
