//! The tables of one level.

use std::sync::Arc;

use tailwater_format::{Comparator, key};

use crate::table::FileMetadata;

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

    /// In a level of tables that do not overlap, those that can have records of a user key at or
    /// behind the internal key of these parts: mostly one or none, more where the records of one
    /// key fill the end of a table and go on in the next.
    #[inline]
    pub(crate) fn files_for(
        &self,
        comparator: &Comparator,
        user_key: &[u8],
        trailer: u64,
    ) -> &[Arc<FileMetadata>] {
        let from = self.files.partition_point(|file| {
            let (largest, largest_trailer) = key::split(file.largest()).unwrap_or_default();
            let order = comparator.compare(largest, user_key);
            order.then_with(|| trailer.cmp(&largest_trailer)).is_lt()
        });
        let rest = self.files.get(from..).unwrap_or_default();
        let begins_behind = |file: &Arc<FileMetadata>| {
            comparator.compare(file.smallest_user_key(), user_key).is_gt()
        };
        let count = rest.iter().position(begins_behind).unwrap_or(rest.len());
        &rest[..count]
    }
}
