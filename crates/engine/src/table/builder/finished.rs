//! A complete table, and its metadata for the MANIFEST.

use tailwater_format::key::Sequence;
use tailwater_format::table::Properties;
use tailwater_format::version_edit::NewFile;

use crate::handover::TableHandover;

/// A complete table, not yet durable.
#[derive(Debug)]
pub struct FinishedTable {
    /// The file's length in bytes.
    pub size: u64,
    /// The smallest internal key, range tombstones included.
    pub smallest: Vec<u8>,
    /// The largest internal key, range tombstones included. If a range tombstone extends furthest,
    /// this is its end key with the maximum sequence number.
    pub largest: Vec<u8>,
    /// The lowest sequence number.
    pub smallest_sequence: Sequence,
    /// The highest sequence number.
    pub largest_sequence: Sequence,
    /// The lowest number of the blob files that the table refers to.
    pub oldest_blob_file_number: Option<u64>,
    /// The length of everything after the data blocks, in bytes.
    pub tail_size: u64,
    /// The table's unique id; `[0, 0]` if its origin does not determine one.
    pub unique_id: [u64; 2],
    /// The properties, as written to the file.
    pub properties: Properties,
    /// The blocks of the table that warm handover keeps in memory, if it is enabled.
    pub(crate) table_handover: Option<TableHandover>,
}

impl FinishedTable {
    /// Returns the version edit's entry that adds the table to `level`. The fields for the path,
    /// the epoch number, and the number of bytes that range tombstones cover keep their defaults,
    /// because the table does not determine them.
    pub fn new_file(&self, level: u32) -> NewFile {
        NewFile {
            level,
            number: self.properties.original_file_number,
            size: self.size,
            smallest: self.smallest.clone(),
            largest: self.largest.clone(),
            smallest_sequence: self.smallest_sequence,
            largest_sequence: self.largest_sequence,
            oldest_ancestor_time_s: self.properties.creation_time,
            creation_time_s: self.properties.file_creation_time,
            oldest_blob_file_number: self.oldest_blob_file_number,
            unique_id: self.unique_id,
            tail_size: self.tail_size,
            ..NewFile::default()
        }
    }
}
