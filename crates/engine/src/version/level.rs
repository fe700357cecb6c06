//! The tables of one level.

use std::sync::Arc;

use tailwater_format::{Comparator, key};

use crate::version::FileMetadata;

/// The tables of one level.
#[derive(Debug, Default)]
pub(crate) struct Level {
    files: Vec<Arc<FileMetadata>>,
}

impl Level {
    /// Tables that are in the level's order already.
    pub(crate) fn new(files: Vec<Arc<FileMetadata>>) -> Self {
        Self { files }
    }

    /// The tables: in level 0 the newest first, in the others in key order.
    #[inline]
    pub(crate) fn files(&self) -> &[Arc<FileMetadata>] {
        &self.files
    }

    /// In a level of tables that do not overlap, the one that can have the first record not below the internal key of
    /// these parts, if that record can have its user key.
    #[inline]
    pub(crate) fn file_for(
        &self,
        comparator: &Comparator,
        user_key: &[u8],
        trailer: u64,
    ) -> Option<&Arc<FileMetadata>> {
        let at = self.files.partition_point(|file| {
            let (largest, largest_trailer) = key::split(file.largest()).unwrap_or_default();
            let order = comparator.compare(largest, user_key);
            order.then_with(|| trailer.cmp(&largest_trailer)).is_lt()
        });
        let file = self.files.get(at)?;
        comparator.compare(file.smallest_user_key(), user_key).is_le().then_some(file)
    }
}
