//! Metadata of a blob file from the MANIFEST.

use tailwater_format::blob::{BLOB_FOOTER_LENGTH, BLOB_HEADER_LENGTH};
use tailwater_format::version_edit::BlobFileAddition;

/// Metadata of a blob file from the MANIFEST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlobFileMetadata {
    /// The edit that added it.
    pub(crate) added: BlobFileAddition,
    /// Number of its blobs that are garbage: nothing refers to them.
    pub(crate) garbage_count: u64,
    /// Size of the garbage, in bytes.
    pub(crate) garbage_bytes: u64,
}

impl BlobFileMetadata {
    /// Returns its length, in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        let around = (BLOB_HEADER_LENGTH + BLOB_FOOTER_LENGTH) as u64;
        self.added.blob_bytes.saturating_add(around)
    }
}
