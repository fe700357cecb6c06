//! A table, as the MANIFEST knows it, and its reader while it is open.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tailwater_format::key::{self, Sequence};
use tailwater_format::version_edit::NewFile;

use crate::epoch::EpochCell;
use crate::table::{TableIdentity, TableReader};

/// What tables' blocks go by in the block cache: never the same for two tables of a process.
static NEXT_CACHE_ID: AtomicU64 = AtomicU64::new(1);

/// A table, as the MANIFEST knows it. Versions share it.
#[derive(Debug)]
pub(crate) struct FileMetadata {
    /// What was said when it was added.
    added: NewFile,
    cache_id: u64,
    /// Its reader, if it is open: filled and emptied by the table cache.
    pub(crate) table: EpochCell<TableReader>,
    /// Whether it was read since the table cache last looked.
    pub(crate) touched: AtomicBool,
}

impl FileMetadata {
    /// A table that is not open yet.
    pub(crate) fn new(added: NewFile) -> Self {
        Self {
            added,
            cache_id: NEXT_CACHE_ID.fetch_add(1, Ordering::Relaxed),
            table: EpochCell::new(None),
            touched: AtomicBool::new(false),
        }
    }

    /// What was said when it was added.
    pub(crate) fn added(&self) -> &NewFile {
        &self.added
    }

    /// The number in its name.
    pub(crate) fn number(&self) -> u64 {
        self.added.number
    }

    /// Its length in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.added.size
    }

    /// Its smallest internal key.
    #[inline]
    pub(crate) fn smallest(&self) -> &[u8] {
        &self.added.smallest
    }

    /// Its largest internal key; the end of a range tombstone, exclusive, if its trailer is the
    /// highest there is.
    #[inline]
    pub(crate) fn largest(&self) -> &[u8] {
        &self.added.largest
    }

    /// The user key of its smallest key.
    #[inline]
    pub(crate) fn smallest_user_key(&self) -> &[u8] {
        key::user_key(&self.added.smallest)
    }

    /// The user key of its largest key.
    #[inline]
    pub(crate) fn largest_user_key(&self) -> &[u8] {
        key::user_key(&self.added.largest)
    }

    /// The highest sequence number in it.
    pub(crate) fn largest_sequence(&self) -> Sequence {
        self.added.largest_sequence
    }

    /// What its reader must find when it opens the file.
    pub(crate) fn identity(&self) -> TableIdentity {
        let unique_id = self.added.unique_id;
        TableIdentity {
            cache_id: self.cache_id,
            largest_sequence: Some(self.added.largest_sequence),
            unique_id: (unique_id != [0, 0]).then_some(unique_id),
            tail_length: self.added.tail_size,
            level_0: self.added.level == 0,
        }
    }
}
