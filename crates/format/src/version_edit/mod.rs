//! Version edits: the records of a MANIFEST, each a change to the contents of the database.
//!
//! An edit is a sequence of tagged fields in any order. A field that is missing changes nothing.
//! Edits are written with their fields in RocksDB's order. A tag with [`IGNORABLE_TAG`] set is
//! followed by the length of its field, so that a reader can skip a field that it does not know.
//! When such a reader writes the edit again, the field is lost. Any other unknown tag is rejected.
//!
//! | tag | field |
//! |---|---|
//! | 1 | comparator: slice |
//! | 2, 9, 3, 10 | log, previous log, next file, minimum log to keep: varint64 number |
//! | 4 | last sequence: varint64 |
//! | 5 | compact cursor: varint32 level, slice internal key |
//! | 6 | deleted file: varint32 level, varint64 number |
//! | 7, 100, 102, 103 | new file, see [`NewFile`] |
//! | 200 | column family of this edit: varint32 |
//! | 201, 202 | column family added: slice name; dropped |
//! | 203 | highest column family id: varint32 |
//! | 300 | atomic group: varint32 number of its edits that follow |
//! | 400, 401 | blob file added, garbage in a blob file |
//! | 8193 | database id: slice |
//! | 8194, 8195 | 400 and 401 as older versions numbered them |
//! | 8196, 8197 | 8199 and 8200 without their length |
//! | 8198 | lowest timestamp whose history is kept: slice |
//! | 8199, 8200 | log synced, logs deleted: slice |
//! | 8201 | whether timestamps are stored: slice of one byte |
//! | 8202 | progress of a subcompaction: slice |
//! | 8203 | length of the last compacted MANIFEST: slice of a varint64 |
//! | 488693760 | Tailwater's: the logs that exist: slice of varint64 numbers |
//! | 488710144 | Tailwater's: options of the column family added, see [`FamilyOptions`]: slice |
//!
//! Source: `db/version_edit.cc`.

mod blob_file;
mod family_options;
mod file;
mod progress;
mod wal;

use std::collections::BTreeSet;

use crate::key::{Sequence, TRAILER_LENGTH, ValueType};
use crate::varint::{Reader, put_length_prefixed, put_varint32, put_varint64};
use crate::{Error, Result};

pub use blob_file::{BlobFileAddition, BlobFileGarbage};
pub use family_options::FamilyOptions;
pub use file::{FileChecksum, NewFile, Temperature};
pub use progress::{LevelProgress, SubcompactionProgress};
pub use wal::WalAddition;

/// Bit of a tag. If it is set, a reader that does not know the tag skips the field.
pub const IGNORABLE_TAG: u32 = 1 << 13;

/// Tags of fields; see the table above.
mod tag {
    use super::IGNORABLE_TAG;

    pub(super) const COMPARATOR: u32 = 1;
    pub(super) const LOG_NUMBER: u32 = 2;
    pub(super) const NEXT_FILE_NUMBER: u32 = 3;
    pub(super) const LAST_SEQUENCE: u32 = 4;
    pub(super) const COMPACT_CURSOR: u32 = 5;
    pub(super) const DELETED_FILE: u32 = 6;
    pub(super) const NEW_FILE: u32 = 7;
    pub(super) const PREVIOUS_LOG_NUMBER: u32 = 9;
    pub(super) const MIN_LOG_NUMBER_TO_KEEP: u32 = 10;
    pub(super) const NEW_FILE_2: u32 = 100;
    pub(super) const NEW_FILE_3: u32 = 102;
    pub(super) const NEW_FILE_4: u32 = 103;
    pub(super) const COLUMN_FAMILY: u32 = 200;
    pub(super) const COLUMN_FAMILY_ADD: u32 = 201;
    pub(super) const COLUMN_FAMILY_DROP: u32 = 202;
    pub(super) const MAX_COLUMN_FAMILY: u32 = 203;
    pub(super) const IN_ATOMIC_GROUP: u32 = 300;
    pub(super) const BLOB_FILE_ADDITION: u32 = 400;
    pub(super) const BLOB_FILE_GARBAGE: u32 = 401;
    pub(super) const DATABASE_ID: u32 = IGNORABLE_TAG + 1;
    pub(super) const OLD_BLOB_FILE_ADDITION: u32 = IGNORABLE_TAG + 2;
    pub(super) const OLD_BLOB_FILE_GARBAGE: u32 = IGNORABLE_TAG + 3;
    pub(super) const OLD_WAL_ADDITION: u32 = IGNORABLE_TAG + 4;
    pub(super) const OLD_WAL_DELETION: u32 = IGNORABLE_TAG + 5;
    pub(super) const FULL_HISTORY_TIMESTAMP_LOW: u32 = IGNORABLE_TAG + 6;
    pub(super) const WAL_ADDITION: u32 = IGNORABLE_TAG + 7;
    pub(super) const WAL_DELETION: u32 = IGNORABLE_TAG + 8;
    pub(super) const PERSIST_USER_DEFINED_TIMESTAMPS: u32 = IGNORABLE_TAG + 9;
    pub(super) const SUBCOMPACTION_PROGRESS: u32 = IGNORABLE_TAG + 10;
    pub(super) const LAST_COMPACTED_MANIFEST_LENGTH: u32 = IGNORABLE_TAG + 11;
    /// RocksDB assigns tags consecutively. This tag and the next are far from those, so that no
    /// later version of RocksDB assigns them.
    pub(super) const EXISTING_LOGS: u32 = IGNORABLE_TAG + (0x7483 << 14);
    pub(super) const FAMILY_OPTIONS: u32 = IGNORABLE_TAG + (0x7484 << 14);
}

/// The internal key at which the next compaction of a level begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactCursor {
    /// The level whose next compaction begins at `key`.
    pub level: u32,
    /// The internal key.
    pub key: Vec<u8>,
}

/// A table that no longer belongs to a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeletedFile {
    /// The level to which the table belonged.
    pub level: u32,
    /// The number in the file's name.
    pub number: u64,
}

/// A change to the contents of a database. Fields that are `None`, empty or false are not part of
/// the change.
///
/// Fields about files and logs apply to the column family of the edit. The next file number, the
/// last sequence number and the highest column family id apply to the whole database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VersionEdit {
    /// The database's id, as in its IDENTITY file.
    pub database_id: Option<String>,
    /// Name of the column family's comparator.
    pub comparator: Option<String>,
    /// Lowest number of a log that may contain data of this column family that is not in tables.
    pub log_number: Option<u64>,
    /// In LevelDB, the number of a log that was still being flushed; RocksDB writes 0.
    pub previous_log_number: Option<u64>,
    /// The number that the next file will get.
    pub next_file_number: Option<u64>,
    /// The highest id that any column family has had, dropped ones included.
    pub max_column_family: Option<u32>,
    /// Lowest number of a log that any column family still needs.
    pub min_log_number_to_keep: Option<u64>,
    /// The highest sequence number in tables and logs.
    pub last_sequence: Option<Sequence>,
    /// For each level with an entry here, the key at which the next compaction of that level
    /// begins.
    pub compact_cursors: Vec<CompactCursor>,
    /// Tables removed from levels.
    pub deleted_files: BTreeSet<DeletedFile>,
    /// Tables added to levels.
    pub new_files: Vec<NewFile>,
    /// Blob files added.
    pub blob_file_additions: Vec<BlobFileAddition>,
    /// Blobs to which no table refers any longer, one entry for each blob file.
    pub blob_file_garbage: Vec<BlobFileGarbage>,
    /// Logs started or synced (`track_and_verify_wals_in_manifest`).
    pub wal_additions: Vec<WalAddition>,
    /// All logs with a lower number have been deleted. A value of 0 has no effect.
    pub wal_deletion: Option<u64>,
    /// Id of the column family to which the edit applies. The default column family has id 0.
    pub column_family: u32,
    /// Name of the column family that the edit creates.
    pub column_family_add: Option<String>,
    /// Whether the edit drops its column family.
    pub column_family_drop: bool,
    /// Number of edits that follow this one in its atomic group. All edits of a group take effect,
    /// or none.
    pub atomic_group_remaining: Option<u32>,
    /// Timestamp below which history may be dropped. An empty timestamp has no effect.
    pub full_history_timestamp_low: Option<Vec<u8>>,
    /// Whether tables store user-defined timestamps. It is in the same edit as the comparator's
    /// name.
    pub persist_user_defined_timestamps: Option<bool>,
    /// Progress of a subcompaction.
    pub subcompaction_progress: Option<SubcompactionProgress>,
    /// Length of the MANIFEST when it was last rewritten, in bytes.
    pub last_compacted_manifest_length: Option<u64>,
    /// Numbers, in ascending order, of the logs that existed when the edit was written and whose
    /// directory entries were durable. The list replaces the list of an earlier edit. RocksDB
    /// ignores it.
    pub existing_logs: Option<Vec<u64>>,
    /// The options of the column family that the edit creates. RocksDB ignores them.
    pub family_options: Option<FamilyOptions>,
}

impl VersionEdit {
    /// Reads the edit in a record of a MANIFEST. If a field is repeated, the last value is used.
    ///
    /// # Errors
    /// Corruption, for bytes that are not an edit; unsupported, for an unknown field that must not
    /// be ignored, and for names that are not UTF-8.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut edit = Self::default();
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let tag = reader.varint32("version edit tag")?;
            let known = edit.decode_number(tag, &mut reader)?
                || edit.decode_files(tag, &mut reader)?
                || edit.decode_other(tag, &mut reader)?;
            if !known {
                if tag & IGNORABLE_TAG == 0 {
                    return Err(Error::unsupported(format!("version edit tag {tag}")));
                }
                reader.length_prefixed("ignorable version edit field")?;
            }
        }
        Ok(edit)
    }

    /// Reads the field of `tag` if it is a single number. Returns false for any other tag.
    fn decode_number(&mut self, tag: u32, reader: &mut Reader<'_>) -> Result<bool> {
        match tag {
            tag::LOG_NUMBER => self.log_number = Some(reader.varint64("log number")?),
            tag::PREVIOUS_LOG_NUMBER => {
                self.previous_log_number = Some(reader.varint64("previous log number")?);
            }
            tag::NEXT_FILE_NUMBER => {
                self.next_file_number = Some(reader.varint64("next file number")?);
            }
            tag::MIN_LOG_NUMBER_TO_KEEP => {
                self.min_log_number_to_keep = Some(reader.varint64("minimum log number to keep")?);
            }
            tag::LAST_SEQUENCE => self.last_sequence = Some(reader.varint64("last sequence")?),
            tag::MAX_COLUMN_FAMILY => {
                self.max_column_family = Some(reader.varint32("highest column family id")?);
            }
            tag::COLUMN_FAMILY => self.column_family = reader.varint32("column family id")?,
            tag::IN_ATOMIC_GROUP => {
                self.atomic_group_remaining = Some(reader.varint32("remaining edits of a group")?);
            }
            tag::OLD_WAL_DELETION => self.wal_deletion = Some(reader.varint64("log number")?),
            tag::WAL_DELETION => {
                self.wal_deletion =
                    Some(field(reader, "deletion of logs", |field| field.varint64("log number"))?);
            }
            tag::LAST_COMPACTED_MANIFEST_LENGTH => {
                let length = field(reader, "MANIFEST length", |field| {
                    field.varint64("length of the last compacted MANIFEST")
                })?;
                self.last_compacted_manifest_length = Some(length);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads the field of `tag` if it is about a file or log. Returns false for any other tag.
    fn decode_files(&mut self, tag: u32, reader: &mut Reader<'_>) -> Result<bool> {
        match tag {
            tag::COMPACT_CURSOR => {
                let level = reader.varint32("level")?;
                let key = internal_key(reader, "compact cursor")?;
                self.compact_cursors.push(CompactCursor { level, key });
            }
            tag::DELETED_FILE => {
                let level = reader.varint32("level")?;
                let number = reader.varint64("deleted file number")?;
                self.deleted_files.insert(DeletedFile { level, number });
            }
            tag::NEW_FILE => self.new_files.push(NewFile::decode_1(reader)?),
            tag::NEW_FILE_2 => self.new_files.push(NewFile::decode_2(reader)?),
            tag::NEW_FILE_3 => self.new_files.push(NewFile::decode_3(reader)?),
            tag::NEW_FILE_4 => {
                let file = NewFile::decode_4(reader, &mut self.min_log_number_to_keep)?;
                self.new_files.push(file);
            }
            tag::BLOB_FILE_ADDITION | tag::OLD_BLOB_FILE_ADDITION => {
                self.blob_file_additions.push(BlobFileAddition::decode(reader)?);
            }
            tag::BLOB_FILE_GARBAGE | tag::OLD_BLOB_FILE_GARBAGE => {
                self.blob_file_garbage.push(BlobFileGarbage::decode(reader)?);
            }
            tag::OLD_WAL_ADDITION => self.wal_additions.push(WalAddition::decode(reader)?),
            tag::WAL_ADDITION => {
                self.wal_additions.push(field(reader, "addition of a log", WalAddition::decode)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads the field of `tag` if it is a name, a flag or a rarely used field. Returns false for
    /// an unknown tag.
    fn decode_other(&mut self, tag: u32, reader: &mut Reader<'_>) -> Result<bool> {
        match tag {
            tag::DATABASE_ID => self.database_id = Some(text(reader, "database id")?),
            tag::COMPARATOR => self.comparator = Some(text(reader, "comparator name")?),
            tag::COLUMN_FAMILY_ADD => {
                self.column_family_add = Some(text(reader, "column family name")?);
            }
            tag::COLUMN_FAMILY_DROP => self.column_family_drop = true,
            tag::FULL_HISTORY_TIMESTAMP_LOW => {
                let what = "lowest timestamp of the history";
                let start = reader.offset();
                let timestamp = reader.length_prefixed(what)?;
                if timestamp.is_empty() {
                    return Err(Error::corruption(what, start, "a timestamp", "nothing"));
                }
                self.full_history_timestamp_low = Some(timestamp.to_vec());
            }
            tag::PERSIST_USER_DEFINED_TIMESTAMPS => {
                let flag = byte(reader, "whether timestamps are stored")?;
                self.persist_user_defined_timestamps = Some(flag == 1);
            }
            tag::SUBCOMPACTION_PROGRESS => {
                let progress =
                    field(reader, "progress of a subcompaction", SubcompactionProgress::decode)?;
                self.subcompaction_progress = Some(progress);
            }
            tag::EXISTING_LOGS => {
                self.existing_logs = Some(field(reader, "list of existing logs", numbers)?);
            }
            tag::FAMILY_OPTIONS => {
                let what = "options of a column family";
                self.family_options = Some(field(reader, what, FamilyOptions::decode)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Appends the edit to `out`, as encoded in a MANIFEST record.
    ///
    /// # Errors
    /// Corruption, for a new file that RocksDB would refuse to write: its bounds are not internal
    /// keys, or it has no epoch number. `out` then contains part of the edit.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        put_text(out, tag::DATABASE_ID, self.database_id.as_deref());
        put_text(out, tag::COMPARATOR, self.comparator.as_deref());
        put_number(out, tag::LOG_NUMBER, self.log_number);
        put_number(out, tag::PREVIOUS_LOG_NUMBER, self.previous_log_number);
        put_number(out, tag::NEXT_FILE_NUMBER, self.next_file_number);
        put_number(out, tag::MAX_COLUMN_FAMILY, self.max_column_family.map(u64::from));
        put_number(out, tag::MIN_LOG_NUMBER_TO_KEEP, self.min_log_number_to_keep);
        put_number(out, tag::LAST_SEQUENCE, self.last_sequence);
        self.encode_files(out)?;
        if self.column_family != 0 {
            put_number(out, tag::COLUMN_FAMILY, Some(u64::from(self.column_family)));
        }
        put_text(out, tag::COLUMN_FAMILY_ADD, self.column_family_add.as_deref());
        if self.column_family_drop {
            put_varint32(out, tag::COLUMN_FAMILY_DROP);
        }
        put_number(out, tag::IN_ATOMIC_GROUP, self.atomic_group_remaining.map(u64::from));
        if let Some(timestamp) = &self.full_history_timestamp_low
            && !timestamp.is_empty()
        {
            put_field(out, tag::FULL_HISTORY_TIMESTAMP_LOW, timestamp);
        }
        if let Some(persisted) = self.persist_user_defined_timestamps {
            put_field(out, tag::PERSIST_USER_DEFINED_TIMESTAMPS, &[u8::from(persisted)]);
        }
        if let Some(progress) = &self.subcompaction_progress {
            let mut field = Vec::new();
            progress.encode(&mut field)?;
            put_field(out, tag::SUBCOMPACTION_PROGRESS, &field);
        }
        if let Some(length) = self.last_compacted_manifest_length {
            put_number_field(out, tag::LAST_COMPACTED_MANIFEST_LENGTH, length);
        }
        if let Some(logs) = &self.existing_logs {
            let mut field = Vec::new();
            logs.iter().for_each(|&number| put_varint64(&mut field, number));
            put_field(out, tag::EXISTING_LOGS, &field);
        }
        if let Some(options) = &self.family_options {
            let mut field = Vec::new();
            options.encode(&mut field);
            put_field(out, tag::FAMILY_OPTIONS, &field);
        }
        Ok(())
    }

    fn encode_files(&self, out: &mut Vec<u8>) -> Result<()> {
        for cursor in &self.compact_cursors {
            put_varint32(out, tag::COMPACT_CURSOR);
            put_varint32(out, cursor.level);
            put_length_prefixed(out, &cursor.key);
        }
        for deleted in &self.deleted_files {
            put_varint32(out, tag::DELETED_FILE);
            put_varint32(out, deleted.level);
            put_varint64(out, deleted.number);
        }
        // Versions of RocksDB that do not know the separate field for `min_log_number_to_keep` read
        // the number from the first new file.
        let mut min_log_number_to_keep = self.min_log_number_to_keep;
        for file in &self.new_files {
            file.encode(min_log_number_to_keep.take(), out)?;
        }
        for addition in &self.blob_file_additions {
            put_varint32(out, tag::BLOB_FILE_ADDITION);
            addition.encode(out);
        }
        for garbage in &self.blob_file_garbage {
            put_varint32(out, tag::BLOB_FILE_GARBAGE);
            garbage.encode(out);
        }
        for addition in &self.wal_additions {
            let mut field = Vec::new();
            addition.encode(&mut field);
            put_field(out, tag::WAL_ADDITION, &field);
        }
        if let Some(number) = self.wal_deletion
            && number != 0
        {
            put_number_field(out, tag::WAL_DELETION, number);
        }
        Ok(())
    }
}

/// Reads a length-prefixed field with `decode`. Bytes of the field that `decode` does not read are
/// ignored.
fn field<'a, T>(
    reader: &mut Reader<'a>,
    what: &'static str,
    decode: impl FnOnce(&mut Reader<'a>) -> Result<T>,
) -> Result<T> {
    let field = reader.length_prefixed(what)?;
    let start = reader.offset() - field.len();
    decode(&mut Reader::new(field)).map_err(|error| error.at(start as u64))
}

/// Reads log numbers up to the end of `reader`.
fn numbers(reader: &mut Reader<'_>) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    while !reader.is_empty() {
        numbers.push(reader.varint64("log number")?);
    }
    Ok(numbers)
}

/// Reads a length-prefixed field that must have a length of one byte.
fn byte(reader: &mut Reader<'_>, what: &'static str) -> Result<u8> {
    let start = reader.offset();
    match reader.length_prefixed(what)? {
        [byte] => Ok(*byte),
        other => {
            let found = format!("{} bytes", other.len());
            Err(Error::corruption(what, start, "one byte", found))
        }
    }
}

fn text(reader: &mut Reader<'_>, what: &'static str) -> Result<String> {
    let bytes = reader.length_prefixed(what)?;
    let text = std::str::from_utf8(bytes).map_err(|_| {
        Error::unsupported(format!("a {what} that is not UTF-8: '{}'", bytes.escape_ascii()))
    })?;
    Ok(text.to_owned())
}

fn internal_key(reader: &mut Reader<'_>, what: &'static str) -> Result<Vec<u8>> {
    let start = reader.offset();
    let key = reader.length_prefixed(what)?;
    check_internal_key(key, what, start)?;
    Ok(key.to_vec())
}

/// A value type that no record has. It occurs only in internal keys that are bounds of files. Such
/// a key sorts before every version of its user key.
const BOUND: u8 = 0x1A;

fn check_internal_key(key: &[u8], what: &'static str, offset: usize) -> Result<()> {
    // The trailer is little-endian, so the value type is its first byte.
    let value_type = key.len().checked_sub(TRAILER_LENGTH).and_then(|at| key.get(at)).copied();
    match value_type {
        Some(BOUND) => Ok(()),
        Some(byte) if ValueType::from_byte(byte).is_some() => Ok(()),
        _ => {
            let found = format!("'{}'", key.escape_ascii());
            Err(Error::corruption(what, offset, "an internal key", found))
        }
    }
}

fn put_number(out: &mut Vec<u8>, tag: u32, number: Option<u64>) {
    if let Some(number) = number {
        put_varint32(out, tag);
        put_varint64(out, number);
    }
}

fn put_text(out: &mut Vec<u8>, tag: u32, text: Option<&str>) {
    if let Some(text) = text {
        put_field(out, tag, text.as_bytes());
    }
}

fn put_field(out: &mut Vec<u8>, tag: u32, bytes: &[u8]) {
    put_varint32(out, tag);
    put_length_prefixed(out, bytes);
}

/// Appends a tag and the number in its field.
fn put_number_field(out: &mut Vec<u8>, tag: u32, number: u64) {
    let mut field = Vec::new();
    put_varint64(&mut field, number);
    put_field(out, tag, &field);
}
