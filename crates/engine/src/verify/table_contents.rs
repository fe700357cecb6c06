//! Verification of a table's contents against its index, filter and properties and the MANIFEST.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tailwater_format::blob::BlobIndex;
use tailwater_format::block::{Cursor, IndexCursor};
use tailwater_format::key::{self, ParsedKey, Sequence, ValueType};
use tailwater_format::table::BlockHandle;
use tailwater_io::Purpose;

use super::Report;
use super::table_blocks::{BlockStream, Spans, note};
use crate::blob::BlobCache;
use crate::block_cache::BlockKind;
use crate::error::Result;
use crate::table::{FileMetadata, Loading, ReadProfile, TableReader};

/// The profile with which a verification reads a table's index and filter.
pub(super) const PROFILE: ReadProfile =
    ReadProfile { purpose: Purpose::Verification, verify_checksums: true, fill_cache: true };

/// The bounds of a table's internal keys and sequence numbers according to the MANIFEST, all
/// inclusive.
pub(super) struct Bounds<'a> {
    smallest: &'a [u8],
    largest: &'a [u8],
    sequences: std::ops::RangeInclusive<Sequence>,
}

impl<'a> Bounds<'a> {
    pub(super) fn of(file: &'a FileMetadata) -> Self {
        let added = file.added();
        Self {
            smallest: &added.smallest,
            largest: &added.largest,
            sequences: added.smallest_sequence..=added.largest_sequence,
        }
    }
}

/// Counts of the records and data blocks found in the table, to be compared with its properties.
#[derive(Default)]
struct Counts {
    points: u64,
    deletions: u64,
    merges: u64,
    range_deletions: u64,
    raw_key_size: u64,
    raw_value_size: u64,
    data_blocks: u64,
    data_size: u64,
}

/// The state of verifying a table's contents.
pub(super) struct Contents<'a> {
    path: &'a Path,
    table: &'a Arc<TableReader>,
    blobs: &'a BlobCache,
    /// The number of references to each blob file.
    references: &'a mut BTreeMap<u64, u64>,
    report: &'a mut Report,
    counts: Counts,
    /// The first and the last internal key so far, with global sequence numbers applied.
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    filter_cursor: IndexCursor,
    /// Whether a key that the filter lacks was already reported; only the first one is.
    filter_denied: bool,
}

impl<'a> Contents<'a> {
    pub(super) fn new(
        path: &'a Path,
        table: &'a Arc<TableReader>,
        blobs: &'a BlobCache,
        references: &'a mut BTreeMap<u64, u64>,
        report: &'a mut Report,
    ) -> Self {
        Self {
            path,
            table,
            blobs,
            references,
            report,
            counts: Counts::default(),
            first_key: Vec::new(),
            last_key: Vec::new(),
            filter_cursor: IndexCursor::default(),
            filter_denied: false,
        }
    }

    /// Returns the number of records, range tombstones included.
    pub(super) fn entries(&self) -> u64 {
        self.counts.points + self.counts.range_deletions
    }

    /// Reads all data blocks through the index. Checks them and their records against the index,
    /// the properties and `bounds`.
    pub(super) fn check(
        &mut self,
        bounds: Option<&Bounds<'_>>,
        stream: &mut BlockStream,
        spans: &mut Spans,
    ) -> Result<()> {
        let mut whole = true;
        let root = self.table.load_index_root(&PROFILE)?;
        let format = self.table.index_format();
        let mut cursor = IndexCursor::default();
        let root_handle = self.table.index_handle();
        let damaged = |error| self.table.damaged(root_handle, error);
        cursor.seek_to_first(root.bytes(), root.layout(), format).map_err(damaged)?;
        let mut separator = Vec::new();
        while cursor.valid() {
            if self.table.has_partitioned_index() {
                note(spans, cursor.handle(), "index partition");
                whole &= self.partition(&cursor, bounds, stream, spans, &mut separator)?;
            } else {
                whole &= self.index_entry(
                    &cursor,
                    cursor.first_key(root.bytes()),
                    bounds,
                    stream,
                    spans,
                    &mut separator,
                );
            }
            let damaged = |error| self.table.damaged(root_handle, error);
            cursor.next(root.bytes(), root.layout(), format).map_err(damaged)?;
        }
        self.range_tombstones(bounds)?;
        if whole {
            self.check_bounds(bounds);
            self.check_properties();
        }
        Ok(())
    }

    /// Reads the data blocks of an index partition. Returns whether all could be read.
    fn partition(
        &mut self,
        root: &IndexCursor,
        bounds: Option<&Bounds<'_>>,
        stream: &mut BlockStream,
        spans: &mut Spans,
        separator: &mut Vec<u8>,
    ) -> Result<bool> {
        let handle = root.handle();
        let block = match self.table.load(handle, BlockKind::Index, &PROFILE) {
            Ok(block) => block,
            Err(error) => {
                self.report.error(self.path, &error);
                return Ok(false);
            }
        };
        let format = self.table.index_format();
        let mut whole = true;
        let mut cursor = IndexCursor::default();
        let damaged = |error| self.table.damaged(handle, error);
        cursor.seek_to_first(block.bytes(), block.layout(), format).map_err(damaged)?;
        while cursor.valid() {
            let first_key = cursor.first_key(block.bytes());
            whole &= self.index_entry(&cursor, first_key, bounds, stream, spans, separator);
            let damaged = |error| self.table.damaged(handle, error);
            cursor.next(block.bytes(), block.layout(), format).map_err(damaged)?;
        }
        if self.table.compare_index_keys(separator, root.key()).is_gt() {
            let message = "the key of an index partition is below the last key in it";
            self.report.damage_at(self.path, handle.offset, message);
        }
        Ok(whole)
    }

    /// Reads the data block of an index entry. Returns whether it could be read.
    fn index_entry(
        &mut self,
        entry: &IndexCursor,
        first_key: &[u8],
        bounds: Option<&Bounds<'_>>,
        stream: &mut BlockStream,
        spans: &mut Spans,
        separator: &mut Vec<u8>,
    ) -> bool {
        let handle = entry.handle();
        note(spans, handle, "data block");
        self.counts.data_blocks += 1;
        self.counts.data_size = self.counts.data_size.max(handle.end());
        let before = std::mem::take(separator);
        let read = self.data_block(handle, &before, first_key, bounds, stream);
        *separator = before;
        separator.clear();
        separator.extend_from_slice(entry.key());
        if let Err(error) = &read {
            self.report.error(self.path, error);
        }
        if read.is_ok() && self.table.compare_index_key(entry.key(), &self.last_key).is_lt() {
            let message = "the index key of this block is below the block's last key";
            self.report.damage_at(self.path, handle.offset, message);
        }
        read.is_ok()
    }

    fn data_block(
        &mut self,
        handle: BlockHandle,
        separator_before: &[u8],
        first_key: &[u8],
        bounds: Option<&Bounds<'_>>,
        stream: &mut BlockStream,
    ) -> Result<()> {
        let table = Arc::clone(self.table);
        let block = stream.block(&table, handle)?;
        let (bytes, layout) = (block.bytes(), block.layout());
        let damaged = |error| table.damaged(handle, error);
        let mut cursor = Cursor::default();
        cursor.seek_to_first(bytes, layout).map_err(damaged)?;
        let first = cursor.key();
        if !first_key.is_empty() && first_key != first {
            let message = "the index records a different first key for this block";
            self.report.damage_at(self.path, handle.offset, message);
        }
        if !separator_before.is_empty()
            && cursor.valid()
            && table.compare_index_key(separator_before, first).is_ge()
        {
            let message = "the previous block's index key is not below this block's first key";
            self.report.damage_at(self.path, handle.offset, message);
        }
        while cursor.valid() {
            self.record(handle, cursor.key(), cursor.value(bytes), bounds)?;
            cursor.next(bytes, layout).map_err(damaged)?;
        }
        Ok(())
    }

    fn record(
        &mut self,
        handle: BlockHandle,
        stored_key: &[u8],
        value: &[u8],
        bounds: Option<&Bounds<'_>>,
    ) -> Result<()> {
        let table = Arc::clone(self.table);
        let parsed = ParsedKey::parse(stored_key).map_err(|error| table.damaged(handle, error))?;
        let sequence = table.global_sequence().unwrap_or(parsed.sequence);
        let trailer = key::pack_trailer(sequence, parsed.value_type as u8);
        let mut internal_key = std::mem::take(&mut self.first_key);
        let is_first = self.counts.points == 0;
        let mut next_key = Vec::new();
        key::put_internal_key(&mut next_key, parsed.user_key, trailer);
        if is_first {
            internal_key.clone_from(&next_key);
        } else if key::compare_internal(table.comparator(), &self.last_key, &next_key).is_ge() {
            let shown = parsed.user_key.escape_ascii();
            let message = format!("keys out of order at key '{shown}' of the block here");
            self.report.damage_at(self.path, handle.offset, message);
        }
        self.first_key = internal_key;
        self.last_key = next_key;
        if bounds.is_some_and(|bounds| !bounds.sequences.contains(&sequence)) {
            let message = format!("sequence number {sequence} is not among those in the MANIFEST");
            self.report.damage_at(self.path, handle.offset, message);
        }
        self.counts.points += 1;
        self.counts.raw_key_size += stored_key.len() as u64;
        self.counts.raw_value_size += value.len() as u64;
        match parsed.value_type {
            ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp => {
                self.counts.deletions += 1;
            }
            ValueType::Merge => self.counts.merges += 1,
            ValueType::BlobIndex => self.blob(parsed.user_key, value),
            ValueType::RangeDeletion => {
                let message = "a range tombstone in a data block";
                self.report.damage_at(self.path, handle.offset, message);
            }
            _ => {}
        }
        self.ask_filter(parsed.user_key)
    }

    /// Checks that the blob to which a blob index refers exists and belongs to the key.
    fn blob(&mut self, user_key: &[u8], index: &[u8]) {
        if let Ok(BlobIndex::Blob(location)) = BlobIndex::decode(index) {
            *self.references.entry(location.file_number).or_default() += 1;
        }
        if let Err(error) = self.blobs.read(user_key, index, Purpose::Verification) {
            self.report.error(self.path, &error);
        }
    }

    /// Checks that the filter contains the key. A get does not find a key that the filter lacks.
    fn ask_filter(&mut self, user_key: &[u8]) -> Result<()> {
        let access = Loading(&PROFILE);
        let cursor = &mut self.filter_cursor;
        let (whole, _) = self.table.may_contain(&access, user_key, cursor)?;
        let prefix = self.table.may_contain_prefix(&access, user_key, cursor)?;
        if (whole == Some(false) || prefix == Some(false)) && !self.filter_denied {
            self.filter_denied = true;
            let shown = user_key.escape_ascii();
            let message = format!("the filter excludes key '{shown}', which the table has");
            self.report.damage(self.path, message);
        }
        Ok(())
    }

    fn range_tombstones(&mut self, bounds: Option<&Bounds<'_>>) -> Result<()> {
        let table = Arc::clone(self.table);
        table.for_each_range_tombstone(|start, end| {
            self.counts.range_deletions += 1;
            self.counts.raw_key_size += start.len() as u64;
            self.counts.raw_value_size += end.len() as u64;
            let parsed = ParsedKey::parse(start)?;
            let sequence = table.global_sequence().unwrap_or(parsed.sequence);
            if bounds.is_some_and(|bounds| !bounds.sequences.contains(&sequence)) {
                let message =
                    format!("a range tombstone's sequence number {sequence} is not among those in the MANIFEST");
                self.report.damage(self.path, message);
            }
            Ok(())
        })
    }

    /// Checks the bounds that the MANIFEST records for the table. Without range tombstones, the
    /// bounds must be the first and the last key; with range tombstones, they may be wider.
    fn check_bounds(&mut self, bounds: Option<&Bounds<'_>>) {
        let Some(bounds) = bounds.filter(|_| self.counts.points > 0) else { return };
        let comparator = self.table.comparator();
        let smallest = key::compare_internal(comparator, &self.first_key, bounds.smallest);
        let largest = key::compare_internal(comparator, &self.last_key, bounds.largest);
        let exact = self.counts.range_deletions == 0;
        if smallest.is_lt() || (exact && smallest.is_ne()) {
            self.report.damage(self.path, "its first key is not the smallest in the MANIFEST");
        }
        if largest.is_gt() || (exact && largest.is_ne()) {
            self.report.damage(self.path, "its last key is not the largest in the MANIFEST");
        }
    }

    fn check_properties(&mut self) {
        let properties = self.table.properties();
        let counts = &self.counts;
        let claims = [
            ("entries", properties.num_entries, counts.points + counts.range_deletions),
            ("deletions", properties.num_deletions, counts.deletions + counts.range_deletions),
            ("merge operands", properties.num_merge_operands, counts.merges),
            ("range tombstones", properties.num_range_deletions, counts.range_deletions),
            ("bytes of keys", properties.raw_key_size, counts.raw_key_size),
            ("bytes of values", properties.raw_value_size, counts.raw_value_size),
        ];
        for (what, claimed, found) in claims {
            if claimed != found {
                let message =
                    format!("the properties count {claimed} {what}, but there are {found}");
                self.report.damage(self.path, message);
            }
        }
        let (claimed, found) = (properties.data_size, counts.data_size);
        if claimed != found && !is_aligned_end(found, claimed) {
            let message = format!(
                "the properties put the end of the data blocks at {claimed}, but it is at {found}"
            );
            self.report.damage(self.path, message);
        }
        let (claimed, found) = (properties.num_data_blocks, counts.data_blocks);
        let all_are_counted = !samples_blocks(&properties.compression_options);
        if claimed > found || (all_are_counted && claimed < found) {
            let message =
                format!("the properties count {claimed} data blocks, but there are {found}");
            self.report.damage(self.path, message);
        }
    }
}

/// Whether `padded` is `end` rounded up to the next multiple of a power of two, as `block_align`
/// pads blocks.
fn is_aligned_end(end: u64, padded: u64) -> bool {
    let alignment = 1_u64 << padded.trailing_zeros().min(63);
    end < padded && padded - end < alignment
}

/// Whether a table's first blocks were sampled for a dictionary, according to the text of its
/// compression options. RocksDB omits sampled blocks from the property that counts data blocks,
/// even if no dictionary was built from them.
fn samples_blocks(compression_options: &[u8]) -> bool {
    let options = String::from_utf8_lossy(compression_options);
    let mut options = options.split(';').filter_map(|option| option.trim().split_once('='));
    options.any(|(name, value)| name == "max_dict_bytes" && value != "0")
}
