//! The field that adds a table to a level, in its four forms.
//!
//! ```text
//! tag 7   := level: varint32, number: varint64, size: varint64, smallest: slice, largest: slice
//! tag 100 := the same, smallest sequence: varint64, largest sequence: varint64
//! tag 102 := as 100, with path id: varint32 after the number
//! tag 103 := as 100, (custom tag: varint32, field: slice)*, 1
//! ```
//!
//! If bit 6 of a custom tag is set, a reader must know the tag; otherwise it may ignore the field.

use super::{
    byte, check_internal_key, field, internal_key, put_field, put_number_field, tag, text,
};
use crate::key::{MAX_SEQUENCE, Sequence};
use crate::varint::{Reader, put_fixed64, put_length_prefixed, put_varint32, put_varint64};
use crate::{Error, Result};

/// Bit of a custom tag. If it is set, a reader that does not know the tag must reject the edit.
const NOT_IGNORABLE: u32 = 1 << 6;

/// The highest path id. A database may store tables in up to four directories, numbered from 0.
const PATH_ID_MAX: u8 = 3;

/// Name that RocksDB records if it does not know a file's checksum function.
const UNKNOWN_CHECKSUM_FUNCTION: &str = "Unknown";

mod custom {
    pub(super) const END: u32 = 1;
    pub(super) const NEED_COMPACTION: u32 = 2;
    pub(super) const MIN_LOG_NUMBER_TO_KEEP: u32 = 3;
    pub(super) const OLDEST_BLOB_FILE_NUMBER: u32 = 4;
    pub(super) const OLDEST_ANCESTOR_TIME: u32 = 5;
    pub(super) const CREATION_TIME: u32 = 6;
    pub(super) const CHECKSUM: u32 = 7;
    pub(super) const CHECKSUM_FUNCTION: u32 = 8;
    pub(super) const TEMPERATURE: u32 = 9;
    pub(super) const MIN_TIMESTAMP: u32 = 10;
    pub(super) const MAX_TIMESTAMP: u32 = 11;
    pub(super) const UNIQUE_ID: u32 = 12;
    pub(super) const EPOCH_NUMBER: u32 = 13;
    pub(super) const COMPENSATED_RANGE_DELETION_SIZE: u32 = 14;
    pub(super) const TAIL_SIZE: u32 = 15;
    pub(super) const TIMESTAMPS_PERSISTED: u32 = 16;
    pub(super) const OPEN_METADATA: u32 = 17;
    pub(super) const PATH_ID: u32 = super::NOT_IGNORABLE + 1;
}

/// The expected read frequency of a file, as encoded in MANIFESTs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Temperature(pub u8);

impl Temperature {
    /// The temperature of files whose read frequency is unknown.
    pub const UNKNOWN: Self = Self(0);
    /// The temperature of files that are read constantly.
    pub const HOT: Self = Self(0x04);
    /// The temperature of files that are read less than hot files but more than cool files.
    pub const WARM: Self = Self(0x08);
    /// The temperature of files that are read less than warm files but more than cold files.
    pub const COOL: Self = Self(0x0A);
    /// The temperature of files that are read less than cool files but more than `ICE` files.
    pub const COLD: Self = Self(0x0C);
    /// The temperature of files that are hardly ever read.
    pub const ICE: Self = Self(0x10);
}

/// The checksum of a whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileChecksum {
    /// The name of the checksum function.
    pub function: String,
    /// The checksum, encoded as `function` encodes its results.
    pub value: Vec<u8>,
}

/// A table that is added to a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// The level. In the progress of a subcompaction it is `u32::MAX` and has no meaning.
    pub level: u32,
    /// The number in the file's name.
    pub number: u64,
    /// Index, from 0, of the directory that contains the file. The index refers to the list of
    /// database paths.
    pub path_id: u8,
    /// The file's length in bytes.
    pub size: u64,
    /// The lowest internal key, with the start keys of range tombstones included.
    pub smallest: Vec<u8>,
    /// The highest internal key, with the end keys of range tombstones included.
    pub largest: Vec<u8>,
    /// The lowest sequence number in the table.
    pub smallest_sequence: Sequence,
    /// The highest sequence number in the table.
    pub largest_sequence: Sequence,
    /// Time when the oldest data in the table was written, in seconds since 1970; 0 if unknown.
    pub oldest_ancestor_time_s: u64,
    /// Time when the file was created, in seconds since 1970; 0 if unknown.
    pub creation_time_s: u64,
    /// Number that states the order in which data was flushed or ingested: in level 0, the file
    /// with the higher number is newer. It is 0 in files that old versions recorded; 0 is never
    /// written.
    pub epoch_number: u64,
    /// Checksum of the whole file; `None` if file checksums are off.
    pub checksum: Option<FileChecksum>,
    /// The expected read frequency of the file.
    pub temperature: Temperature,
    /// Whether the file is marked for compaction.
    pub marked_for_compaction: bool,
    /// The lowest number of a blob file that the table refers to.
    pub oldest_blob_file_number: Option<u64>,
    /// The table's unique id as computed from its properties; `[0, 0]` if unknown.
    pub unique_id: [u64; 2],
    /// Estimated number of bytes in the next level that the table's range tombstones delete.
    pub compensated_range_deletion_size: u64,
    /// The length of the part of the file after the data blocks, in bytes; 0 if unknown.
    pub tail_size: u64,
    /// Whether the table's keys include their user-defined timestamps. Also true if the keys have
    /// none.
    pub timestamps_persisted: bool,
    /// The lowest user-defined timestamp; empty if unknown.
    pub min_timestamp: Vec<u8>,
    /// The highest user-defined timestamp of the table's keys; empty if unknown.
    pub max_timestamp: Vec<u8>,
    /// Data that the file system returned and that it needs to open the file; empty if there is
    /// none.
    pub open_metadata: Vec<u8>,
}

impl Default for NewFile {
    /// Returns a description with all fields unset: no keys, and an empty range of sequence
    /// numbers.
    fn default() -> Self {
        Self {
            level: 0,
            number: 0,
            path_id: 0,
            size: 0,
            smallest: Vec::new(),
            largest: Vec::new(),
            smallest_sequence: MAX_SEQUENCE,
            largest_sequence: 0,
            oldest_ancestor_time_s: 0,
            creation_time_s: 0,
            epoch_number: 0,
            checksum: None,
            temperature: Temperature::UNKNOWN,
            marked_for_compaction: false,
            oldest_blob_file_number: None,
            unique_id: [0; 2],
            compensated_range_deletion_size: 0,
            tail_size: 0,
            timestamps_persisted: true,
            min_timestamp: Vec::new(),
            max_timestamp: Vec::new(),
            open_metadata: Vec::new(),
        }
    }
}

impl NewFile {
    /// Reads the field that follows tag 7.
    pub(super) fn decode_1(reader: &mut Reader<'_>) -> Result<Self> {
        let level = reader.varint32("level")?;
        let number = reader.varint64("new file number")?;
        let mut file = Self { level, number, ..Self::default() };
        file.decode_size_and_keys(reader)?;
        Ok(file)
    }

    /// Reads the field that follows tag 100.
    pub(super) fn decode_2(reader: &mut Reader<'_>) -> Result<Self> {
        let mut file = Self::decode_1(reader)?;
        file.smallest_sequence = reader.varint64("smallest sequence")?;
        file.largest_sequence = reader.varint64("largest sequence")?;
        Ok(file)
    }

    /// Reads the field that follows tag 102.
    pub(super) fn decode_3(reader: &mut Reader<'_>) -> Result<Self> {
        let level = reader.varint32("level")?;
        let number = reader.varint64("new file number")?;
        let start = reader.offset();
        let path_id = reader.varint32("path id")?;
        let path_id = check_path_id(path_id, start)?;
        let mut file = Self { level, number, path_id, ..Self::default() };
        file.decode_size_and_keys(reader)?;
        file.smallest_sequence = reader.varint64("smallest sequence")?;
        file.largest_sequence = reader.varint64("largest sequence")?;
        Ok(file)
    }

    /// Reads the field that follows tag 103. One of its custom fields does not describe the file:
    /// it sets `min_log_number_to_keep`.
    pub(super) fn decode_4(
        reader: &mut Reader<'_>,
        min_log_number_to_keep: &mut Option<u64>,
    ) -> Result<Self> {
        let mut file = Self::decode_2(reader)?;
        let mut checksum_function = None;
        let mut checksum = Vec::new();
        loop {
            match reader.varint32("custom field of a new file")? {
                custom::END => break,
                custom::CHECKSUM => {
                    checksum = reader.length_prefixed("file checksum")?.to_vec();
                }
                custom::CHECKSUM_FUNCTION => {
                    checksum_function = Some(text(reader, "file checksum function")?);
                }
                custom::MIN_LOG_NUMBER_TO_KEEP => {
                    let what = "minimum log number to keep";
                    let number = field(reader, what, |field| field.fixed64(what))?;
                    *min_log_number_to_keep = Some(number);
                }
                custom => file.decode_custom(custom, reader)?,
            }
        }
        file.checksum = checksum_function
            .filter(|function| function != UNKNOWN_CHECKSUM_FUNCTION)
            .map(|function| FileChecksum { function, value: checksum });
        Ok(file)
    }

    fn decode_size_and_keys(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        self.size = reader.varint64("new file size")?;
        self.smallest = internal_key(reader, "smallest key of a new file")?;
        self.largest = internal_key(reader, "largest key of a new file")?;
        Ok(())
    }

    fn decode_custom(&mut self, custom: u32, reader: &mut Reader<'_>) -> Result<()> {
        let number = |reader: &mut Reader<'_>, what| field(reader, what, |f| f.varint64(what));
        match custom {
            custom::NEED_COMPACTION => {
                self.marked_for_compaction = byte(reader, "need for compaction")? == 1;
            }
            custom::OLDEST_BLOB_FILE_NUMBER => {
                let oldest = number(reader, "oldest blob file number")?;
                self.oldest_blob_file_number = Some(oldest).filter(|&number| number != 0);
            }
            custom::OLDEST_ANCESTOR_TIME => {
                self.oldest_ancestor_time_s = number(reader, "oldest ancestor time")?;
            }
            custom::CREATION_TIME => self.creation_time_s = number(reader, "creation time")?,
            custom::TEMPERATURE => {
                let temperature = Temperature(byte(reader, "temperature")?);
                if temperature <= Temperature::ICE {
                    self.temperature = temperature;
                }
            }
            custom::MIN_TIMESTAMP => {
                self.min_timestamp = reader.length_prefixed("lowest timestamp")?.to_vec();
            }
            custom::MAX_TIMESTAMP => {
                self.max_timestamp = reader.length_prefixed("highest timestamp")?.to_vec();
            }
            custom::UNIQUE_ID => self.unique_id = decode_unique_id(reader)?,
            custom::EPOCH_NUMBER => self.epoch_number = number(reader, "epoch number")?,
            custom::COMPENSATED_RANGE_DELETION_SIZE => {
                self.compensated_range_deletion_size =
                    number(reader, "compensated range deletion size")?;
            }
            custom::TAIL_SIZE => self.tail_size = number(reader, "tail size")?,
            custom::TIMESTAMPS_PERSISTED => {
                self.timestamps_persisted = byte(reader, "whether timestamps are stored")? == 1;
            }
            custom::OPEN_METADATA => {
                self.open_metadata = reader.length_prefixed("file open metadata")?.to_vec();
            }
            custom::PATH_ID => {
                let start = reader.offset();
                self.path_id = check_path_id(u32::from(byte(reader, "path id")?), start)?;
            }
            unknown if unknown & NOT_IGNORABLE != 0 => {
                return Err(Error::unsupported(format!("custom field {unknown} of a new file")));
            }
            _ => {
                reader.length_prefixed("ignorable custom field of a new file")?;
            }
        }
        Ok(())
    }

    /// Appends tag 103 and the file in the newest of RocksDB's four encodings, `kNewFile4`.
    pub(super) fn encode(
        &self,
        min_log_number_to_keep: Option<u64>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let start = out.len();
        check_internal_key(&self.smallest, "smallest key of a new file", start)?;
        check_internal_key(&self.largest, "largest key of a new file", start)?;
        if self.epoch_number == 0 {
            return Err(Error::corruption("new file", start, "an epoch number", "none"));
        }
        put_varint32(out, tag::NEW_FILE_4);
        put_varint32(out, self.level);
        put_varint64(out, self.number);
        put_varint64(out, self.size);
        put_length_prefixed(out, &self.smallest);
        put_length_prefixed(out, &self.largest);
        put_varint64(out, self.smallest_sequence);
        put_varint64(out, self.largest_sequence);
        put_number_field(out, custom::OLDEST_ANCESTOR_TIME, self.oldest_ancestor_time_s);
        put_number_field(out, custom::CREATION_TIME, self.creation_time_s);
        put_number_field(out, custom::EPOCH_NUMBER, self.epoch_number);
        self.encode_custom(min_log_number_to_keep, out);
        put_varint32(out, custom::END);
        Ok(())
    }

    /// Appends the custom fields whose values differ from their defaults.
    fn encode_custom(&self, min_log_number_to_keep: Option<u64>, out: &mut Vec<u8>) {
        if let Some(checksum) = &self.checksum {
            put_field(out, custom::CHECKSUM, &checksum.value);
            put_field(out, custom::CHECKSUM_FUNCTION, checksum.function.as_bytes());
        }
        if self.path_id != 0 {
            put_field(out, custom::PATH_ID, &[self.path_id]);
        }
        if self.temperature != Temperature::UNKNOWN {
            put_field(out, custom::TEMPERATURE, &[self.temperature.0]);
        }
        if self.marked_for_compaction {
            put_field(out, custom::NEED_COMPACTION, &[1]);
        }
        if let Some(number) = min_log_number_to_keep {
            put_field(out, custom::MIN_LOG_NUMBER_TO_KEEP, &number.to_le_bytes());
        }
        if let Some(number) = self.oldest_blob_file_number {
            put_number_field(out, custom::OLDEST_BLOB_FILE_NUMBER, number);
        }
        if self.unique_id != [0; 2] {
            let mut field = Vec::new();
            for half in self.unique_id {
                put_fixed64(&mut field, half);
            }
            put_field(out, custom::UNIQUE_ID, &field);
        }
        if self.compensated_range_deletion_size != 0 {
            let size = self.compensated_range_deletion_size;
            put_number_field(out, custom::COMPENSATED_RANGE_DELETION_SIZE, size);
        }
        if self.tail_size != 0 {
            put_number_field(out, custom::TAIL_SIZE, self.tail_size);
        }
        if !self.timestamps_persisted {
            put_field(out, custom::TIMESTAMPS_PERSISTED, &[0]);
        }
        for (custom, bytes) in [
            (custom::MIN_TIMESTAMP, &self.min_timestamp),
            (custom::MAX_TIMESTAMP, &self.max_timestamp),
            (custom::OPEN_METADATA, &self.open_metadata),
        ] {
            if !bytes.is_empty() {
                put_field(out, custom, bytes);
            }
        }
    }
}

fn decode_unique_id(reader: &mut Reader<'_>) -> Result<[u64; 2]> {
    let start = reader.offset();
    let field = reader.length_prefixed("unique id")?;
    if field.len() != 16 {
        let found = format!("{} bytes", field.len());
        return Err(Error::corruption("unique id", start, "16 bytes", found));
    }
    let mut reader = Reader::new(field);
    Ok([reader.fixed64("unique id")?, reader.fixed64("unique id")?])
}

fn check_path_id(path_id: u32, offset: usize) -> Result<u8> {
    match u8::try_from(path_id) {
        Ok(path_id) if path_id <= PATH_ID_MAX => Ok(path_id),
        _ => {
            let expected = format!("at most {PATH_ID_MAX}");
            Err(Error::corruption("path id", offset, expected, path_id.to_string()))
        }
    }
}
