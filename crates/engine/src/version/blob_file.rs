//! Metadata of a blob file from the MANIFEST.

use std::sync::Arc;

use tailwater_format::blob::{BLOB_FOOTER_LENGTH, BLOB_HEADER_LENGTH};
use tailwater_format::version_edit::BlobFileAddition;

/// Metadata of a blob file from the MANIFEST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlobFileMetadata {
    /// The addition of the file, as the MANIFEST recorded it. The versions that contain the file
    /// share this object. Its references are counted: while a version has one, the file must not be
    /// removed.
    pub(crate) added: Arc<BlobFileAddition>,
    /// Number of the file's blobs that are garbage, that is, to which nothing refers.
    pub(crate) garbage_count: u64,
    /// Total size of the garbage blobs, in bytes.
    pub(crate) garbage_bytes: u64,
}

impl BlobFileMetadata {
    /// Returns the length of the file, in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        let around = (BLOB_HEADER_LENGTH + BLOB_FOOTER_LENGTH) as u64;
        self.added.blob_bytes.saturating_add(around)
    }
}
