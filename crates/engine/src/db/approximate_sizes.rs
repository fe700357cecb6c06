//! Approximate sizes of key ranges: RocksDB's `GetApproximateSizes` and
//! `GetApproximateMemTableStats`.
//!
//! If a range covers part of a table, the table's index gives the file offsets of the data blocks
//! that contain the range's bounds. The bytes between these offsets are counted, plus a
//! proportional share of the index and filter. No data block is read. Tables entirely inside the
//! range are counted whole.

use std::cmp::Ordering;
use std::sync::Arc;

use tailwater_format::key::{self, MAX_SEQUENCE, ValueType};
use tailwater_io::Purpose;

use crate::column_family::{ColumnFamily, SuperVersion};
use crate::db::Db;
use crate::error::{Error, Result};
use crate::memtable::{Cursor, MemTable};
use crate::setters::setters;
use crate::table::{FileMetadata, ReadProfile, TableIterator};
use crate::version::Level;

/// Parameters for reading the indexes of tables.
const PROFILE: ReadProfile = ReadProfile::new(Purpose::UserRead, true);

/// Bytes of a memtable entry in addition to its key and value: 8 for the trailer, and 1 for each of
/// the two lengths.
const ENTRY_BYTES: u64 = 10;

/// The kinds of files and memory that [`Db::approximate_sizes`] counts.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct SizeOptions {
    /// Whether the size of tables is included. Default: true.
    pub include_files: bool,
    /// Whether the size of memtables is included. Default: false.
    pub include_memtables: bool,
    /// Whether the size of blob files is included. The size of the blob files in the range is
    /// estimated as the size of the tables in the range, times the ratio of all blob files' size to
    /// all tables' size. Default: false.
    pub include_blob_files: bool,
    /// Error margin, as a fraction. Let P be the total size of the tables that a range may cover
    /// only in part, and W that of the tables that it covers whole. If P is less than this fraction
    /// of W, half of P is counted and no index is read. With a fraction that is not positive, such
    /// as the default, -1, the indexes are always read.
    pub files_size_error_margin: f64,
}

impl Default for SizeOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl SizeOptions {
    /// Returns the default options.
    pub const fn new() -> Self {
        Self {
            include_files: true,
            include_memtables: false,
            include_blob_files: false,
            files_size_error_margin: -1.0,
        }
    }
}

setters!(SizeOptions {
    with_include_files(include_files: bool),
    with_include_memtables(include_memtables: bool),
    with_include_blob_files(include_blob_files: bool),
    with_files_size_error_margin(files_size_error_margin: f64),
});

/// The approximate contents of memtables in a range of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MemTableStatistics {
    /// Number of entries: all versions of a key are counted, range tombstones are not.
    pub entries: u64,
    /// Total size of the entries in bytes, estimated from the mean size of an entry in the
    /// memtable.
    pub bytes: u64,
}

impl Db {
    /// Returns the approximate size of each range of keys, in bytes. A range includes its first key
    /// and excludes its second.
    ///
    /// # Errors
    /// Invalid argument, if no `include_` option is set, if a range ends before it begins, or if
    /// the column family was not obtained from this `Db` or a clone of it; errors from opening
    /// tables and reading their indexes.
    pub fn approximate_sizes_cf_opt(
        &self,
        family: &ColumnFamily,
        ranges: &[(&[u8], &[u8])],
        options: &SizeOptions,
    ) -> Result<Vec<u64>> {
        self.check_family(family)?;
        let SizeOptions { include_files, include_memtables, include_blob_files, .. } = *options;
        if !include_files && !include_memtables && !include_blob_files {
            return Err(Error::invalid_argument("none of the include_ options is set"));
        }
        let source = family.super_version();
        ranges
            .iter()
            .map(|&(begin, end)| {
                let range = Range::new(family, begin, end)?;
                let mut bytes = 0;
                if include_files || include_blob_files {
                    let in_tables = range.table_bytes(&source, options)?;
                    let blob_share = blob_bytes_per_table_byte(&source);
                    bytes += if include_files { in_tables } else { 0 };
                    if include_blob_files {
                        bytes += (in_tables as f64 * blob_share) as u64;
                    }
                }
                if include_memtables {
                    bytes += range.memtables(&source).bytes;
                }
                Ok(bytes)
            })
            .collect()
    }

    /// Returns the approximate number and size of the entries that memtables have in a range of
    /// keys. Visits every entry in the range.
    ///
    /// # Errors
    /// Invalid argument, if the range ends before it begins, or if the column family was not
    /// obtained from this `Db` or a clone of it.
    pub fn approximate_memtable_stats_cf(
        &self,
        family: &ColumnFamily,
        begin: &[u8],
        end: &[u8],
    ) -> Result<MemTableStatistics> {
        self.check_family(family)?;
        Ok(Range::new(family, begin, end)?.memtables(&family.super_version()))
    }
}

/// Returns the number of bytes in blob files per byte in tables.
fn blob_bytes_per_table_byte(source: &SuperVersion) -> f64 {
    let version = source.version();
    let tables: u64 = version.files().map(|(_, file)| file.size()).fold(0, u64::saturating_add);
    let blobs = version.blob_files().values().map(|file| file.file_bytes());
    if tables == 0 { 0.0 } else { blobs.fold(0, u64::saturating_add) as f64 / tables as f64 }
}

/// A range of keys. Each bound is an internal key that sorts before all records of its user key.
struct Range {
    begin: Vec<u8>,
    end: Vec<u8>,
}

impl Range {
    fn new(family: &ColumnFamily, begin: &[u8], end: &[u8]) -> Result<Self> {
        if family.comparator().compare(begin, end).is_gt() {
            return Err(Error::invalid_argument("a range ends before it begins"));
        }
        let before = |user_key: &[u8]| {
            let mut internal_key = Vec::with_capacity(user_key.len() + key::TRAILER_LENGTH);
            let trailer = key::pack_trailer(MAX_SEQUENCE, ValueType::FOR_SEEK);
            key::put_internal_key(&mut internal_key, user_key, trailer);
            internal_key
        };
        Ok(Self { begin: before(begin), end: before(end) })
    }

    /// Returns the approximate number of bytes within the range in all tables together.
    fn table_bytes(&self, source: &SuperVersion, options: &SizeOptions) -> Result<u64> {
        let mut whole = 0u64;
        let mut partial: Vec<&Arc<FileMetadata>> = Vec::new();
        for (number, level) in source.version().levels().iter().enumerate() {
            if number == 0 {
                partial.extend(level.files());
            } else {
                whole = whole.saturating_add(self.whole_bytes(source, level, &mut partial));
            }
        }
        let sum = partial.iter().map(|file| file.size()).fold(0, u64::saturating_add);
        let margin = options.files_size_error_margin;
        if margin > 0.0 && sum < (whole as f64 * margin) as u64 {
            return Ok(whole.saturating_add(sum / 2));
        }
        for file in partial {
            whole = whole.saturating_add(self.bytes_of(source, file)?);
        }
        Ok(whole)
    }

    /// For a level whose tables do not overlap: finds the two tables that contain the range's
    /// bounds, adds them to `partial`, and returns the bytes of the tables between them.
    fn whole_bytes<'a>(
        &self,
        source: &SuperVersion,
        level: &'a Level,
        partial: &mut Vec<&'a Arc<FileMetadata>>,
    ) -> u64 {
        let files = level.files();
        let Some(last) = files.len().checked_sub(1) else { return 0 };
        let comparator = source.tables().comparator();
        let place = |internal_key: &[u8]| {
            let at = files.partition_point(|file| {
                key::compare_internal(comparator, file.largest(), internal_key).is_lt()
            });
            at.min(last)
        };
        let (begin, end) = (place(&self.begin), place(&self.end));
        partial.push(&files[begin]);
        if end > begin {
            partial.push(&files[end]);
        }
        let between = files.get(begin + 1..end).unwrap_or_default();
        between.iter().map(|file| file.size()).fold(0, u64::saturating_add)
    }

    /// Returns the number of bytes of one table that are within the range.
    fn bytes_of(&self, source: &SuperVersion, file: &Arc<FileMetadata>) -> Result<u64> {
        let comparator = source.tables().comparator();
        let compare = |a: &[u8], b: &[u8]| key::compare_internal(comparator, a, b);
        let (smallest, largest) = (file.smallest(), file.largest());
        if compare(largest, &self.begin).is_le() || compare(smallest, &self.end).is_gt() {
            return Ok(0);
        }
        if compare(smallest, &self.begin).is_ge() {
            return bytes_before(source, file, &self.end);
        }
        if compare(largest, &self.end).is_lt() {
            return Ok(file.size().saturating_sub(bytes_before(source, file, &self.begin)?));
        }
        let table = source.tables().open(file, PROFILE.purpose)?;
        let data = table.properties().data_size;
        if data == 0 {
            return Ok(file.size());
        }
        let begin = TableIterator::data_block(&table, &PROFILE, &self.begin)?
            .map_or(data, |block| block.offset);
        let end = TableIterator::data_block(&table, &PROFILE, &self.end)?
            .map_or(data, |block| block.offset);
        Ok(share(end.saturating_sub(begin), data, file.size()))
    }

    /// Returns the approximate number and size of the entries that memtables have within the range.
    fn memtables(&self, source: &SuperVersion) -> MemTableStatistics {
        let mut sum = MemTableStatistics::default();
        for memtable in source.memtables() {
            let entries = self.entries_in(memtable);
            let counters = memtable.counters();
            let around = ENTRY_BYTES * counters.entries;
            let bytes = counters.key_bytes + counters.value_bytes + around;
            sum.entries += entries;
            sum.bytes += entries * bytes.checked_div(counters.entries).unwrap_or(0);
        }
        sum
    }

    fn entries_in(&self, memtable: &MemTable) -> u64 {
        let mut cursor = Cursor::default();
        cursor.seek(memtable, &self.begin);
        let mut entries = 0;
        while cursor.valid() {
            let found = cursor.key(memtable);
            if key::compare_internal(memtable.comparator(), found, &self.end) != Ordering::Less {
                break;
            }
            entries += 1;
            cursor.next(memtable);
        }
        entries
    }
}

/// Returns the number of bytes of a table that are before an internal key, including a proportional
/// share of the table's index and filter.
fn bytes_before(
    source: &SuperVersion,
    file: &Arc<FileMetadata>,
    internal_key: &[u8],
) -> Result<u64> {
    let comparator = source.tables().comparator();
    if key::compare_internal(comparator, file.largest(), internal_key).is_le() {
        return Ok(file.size());
    }
    if key::compare_internal(comparator, file.smallest(), internal_key).is_ge() {
        return Ok(0);
    }
    let table = source.tables().open(file, PROFILE.purpose)?;
    let data = table.properties().data_size;
    if data == 0 {
        return Ok(file.size() / 2);
    }
    let offset = TableIterator::data_block(&table, &PROFILE, internal_key)?
        .map_or(data, |block| block.offset);
    Ok(share(offset, data, file.size()))
}

/// Converts an offset in the data blocks to an offset in the whole file, including index and
/// filter: returns `file * bytes / data`, where `data` is the size of all data blocks and `file`
/// the size of the file.
fn share(bytes: u64, data: u64, file: u64) -> u64 {
    (bytes as f64 / data as f64 * file as f64) as u64
}
