//! The list of a database's tables.

use std::path::PathBuf;

use tailwater_format::key::{self, Sequence};

use crate::column_family::ColumnFamily;
use crate::db::Db;
use crate::error::Result;

/// A table of a database as of a point in time. Times are in seconds since 1970, 0 if unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveFile {
    /// The name of the table's column family.
    pub column_family: String,
    /// The level of the table.
    pub level: usize,
    /// The file number of the table.
    pub number: u64,
    /// The path of the file.
    pub path: PathBuf,
    /// Length of the file in bytes.
    pub size: u64,
    /// The smallest user key in the table.
    pub smallest_key: Vec<u8>,
    /// The largest user key in the table. If the end of a range tombstone is beyond all other keys
    /// of the table, that end, which is exclusive.
    pub largest_key: Vec<u8>,
    /// The lowest sequence number in the table.
    pub smallest_sequence: Sequence,
    /// The highest sequence number in the table.
    pub largest_sequence: Sequence,
    /// Number of entries, including deletions; `None` if the table has not been opened yet.
    pub entries: Option<u64>,
    /// Number of entries that are deletions; `None` if the table has not been opened yet.
    pub deletions: Option<u64>,
    /// Number that orders the tables of level 0 by their creation.
    pub epoch_number: u64,
    /// Whether a running compaction reads the table.
    pub being_compacted: bool,
    /// A lower bound of the time when the table's oldest entry was written.
    pub oldest_ancestor_time_s: u64,
    /// The time when the file was created.
    pub creation_time_s: u64,
    /// The lowest number of a blob file to which the table refers; `None` if it refers to none.
    pub oldest_blob_file_number: Option<u64>,
}

impl Db {
    /// Returns the current tables of all column families, ordered by column family and level.
    /// Compactions may remove the files at any time. To keep them, create a checkpoint.
    pub fn live_files(&self) -> Vec<LiveFile> {
        self.column_families().iter().flat_map(live_files_of).collect()
    }

    /// Returns the current tables of all column families with their numbers of entries. Opens
    /// tables that are not open, because the numbers are in the tables.
    ///
    /// Otherwise like [`Db::live_files`].
    ///
    /// # Errors
    /// Errors from opening tables.
    pub fn live_files_with_counts(&self) -> Result<Vec<LiveFile>> {
        for family in self.column_families() {
            let source = family.super_version();
            for (_, file) in source.version().files() {
                source.tables().open(file, tailwater_io::Purpose::UserRead)?;
            }
        }
        Ok(self.live_files())
    }
}

fn live_files_of(family: &ColumnFamily) -> Vec<LiveFile> {
    let source = family.super_version();
    let files = source.version().files().map(|(level, file)| {
        let added = file.added();
        let statistics = file.statistics();
        LiveFile {
            column_family: family.name().to_owned(),
            level,
            number: added.number,
            path: source.tables().path(file),
            size: added.size,
            smallest_key: key::user_key(&added.smallest).to_vec(),
            largest_key: key::user_key(&added.largest).to_vec(),
            smallest_sequence: added.smallest_sequence,
            largest_sequence: added.largest_sequence,
            entries: statistics.map(|statistics| statistics.entries),
            deletions: statistics.map(|statistics| statistics.deletions),
            epoch_number: added.epoch_number,
            being_compacted: file.compaction.is_claimed(),
            oldest_ancestor_time_s: added.oldest_ancestor_time_s,
            creation_time_s: added.creation_time_s,
            oldest_blob_file_number: added.oldest_blob_file_number,
        }
    });
    files.collect()
}
