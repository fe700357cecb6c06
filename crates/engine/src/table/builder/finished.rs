//! A table that is complete: what the MANIFEST is to know of it.

use tailwater_format::key::Sequence;
use tailwater_format::table::Properties;
use tailwater_format::version_edit::NewFile;

use crate::handover::Takeover;

/// A table that is complete, though not yet durable.
#[derive(Debug)]
pub struct FinishedTable {
    /// The file's length in bytes.
    pub size: u64,
    /// The smallest internal key, range tombstones included.
    pub smallest: Vec<u8>,
    /// The largest internal key, range tombstones included: where one of these ends last, its end
    /// key with the highest sequence number.
    pub largest: Vec<u8>,
    /// The lowest sequence number.
    pub smallest_sequence: Sequence,
    /// The highest sequence number.
    pub largest_sequence: Sequence,
    /// The lowest number of a blob file that the table refers to.
    pub oldest_blob_file_number: Option<u64>,
    /// The length of everything behind the data blocks, in bytes.
    pub tail_size: u64,
    /// The table's unique id; zeros if it has none of its own.
    pub unique_id: [u64; 2],
    /// The properties, as they stand in the file.
    pub properties: Properties,
    /// What it takes over of what users read.
    pub(crate) takeover: Option<Takeover>,
}

impl FinishedTable {
    /// The table as a version edit puts it into `level`. What the table itself does not know is
    /// left as for an unknown file: its path, its epoch, and how many bytes its range tombstones
    /// cover.
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
