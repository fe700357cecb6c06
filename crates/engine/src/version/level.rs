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
    /// Creates a level. The tables must already be in the level's order.
    pub(crate) fn new(files: Vec<Arc<FileMetadata>>) -> Self {
        Self { files }
    }

    /// Returns the tables: newest first in level 0, in key order in other levels.
    #[inline]
    pub(crate) fn files(&self) -> &[Arc<FileMetadata>] {
        &self.files
    }

    /// Returns the tables that may have records of the internal key's user key at or after the
    /// internal key. The tables of the level must not overlap, so it must not be level 0. Usually
    /// returns one table or none; more if the records of one user key span several tables.
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
