//! A blob file, as the MANIFEST knows it.

use tailwater_format::blob::{BLOB_FOOTER_LENGTH, BLOB_HEADER_LENGTH};
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

impl BlobFileMetadata {
    /// Its length in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        let around = (BLOB_HEADER_LENGTH + BLOB_FOOTER_LENGTH) as u64;
        self.added.blob_bytes.saturating_add(around)
    }
}
