//! Verification of a table's contents against its index, filter and properties and the MANIFEST.

use tailwater_format::blob::{BlobIndex, for_each_blob_index};
use tailwater_format::block::{Cursor, IndexCursor};
use tailwater_format::key::{self, ParsedKey, Sequence, ValueType};
use tailwater_format::table::BlockHandle;
use tailwater_io::Purpose;

use super::table_blocks::{PROFILE, TableCheck};
use crate::block_cache::{Block, BlockKind};
use crate::error::Result;
use crate::table::Loading;

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

/// What has been read of a table's contents.
#[derive(Default)]
pub(super) struct Contents {
    counts: Counts,
    /// The last index key; empty before the first.
    separator: Vec<u8>,
    /// The first and the last internal key so far, with global sequence numbers applied.
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    filter_cursor: IndexCursor,
    /// Whether a key that the filter lacks was already reported; only the first one is.
    filter_denied: bool,
}

impl Contents {
    /// Returns the number of records, range tombstones included.
    pub(super) fn entries(&self) -> u64 {
        self.counts.points + self.counts.range_deletions
    }
}

impl TableCheck<'_> {
    /// Reads all data blocks through the index. Checks them and their records against the index,
    /// the properties and the MANIFEST.
    pub(super) fn check_contents(&mut self) -> Result<()> {
        let root = self.table.held_index_root(&Loading(&PROFILE))?;
        let has_partitions = self.table.has_partitioned_index();
        let is_whole = self.index_block(self.table.index_handle(), &root, has_partitions)?;
        self.range_tombstones()?;
        if is_whole {
            self.check_bounds();
            self.check_properties();
        }
        Ok(())
    }

    /// Reads the data blocks to which an index block refers, directly or through index partitions.
    /// Returns whether all could be read.
    fn index_block(
        &mut self,
        handle: BlockHandle,
        block: &Block,
        has_partitions: bool,
    ) -> Result<bool> {
        let table = self.table;
        let damaged = |error| table.damaged(handle, error);
        let mut is_whole = true;
        block.walk_index(table.index_format(), damaged, |cursor| {
            is_whole &= if has_partitions {
                self.partition(cursor)?
            } else {
                self.index_entry(cursor, cursor.first_key(block.bytes()))
            };
            Ok(())
        })?;
        Ok(is_whole)
    }

    /// Reads the data blocks of an index partition. Returns whether all could be read.
    fn partition(&mut self, root: &IndexCursor) -> Result<bool> {
        let handle = root.handle();
        self.note(handle, "index partition");
        let block = match self.table.load(handle, BlockKind::Index, &PROFILE) {
            Ok(block) => block,
            Err(error) => {
                self.report.error(self.path, &error);
                return Ok(false);
            }
        };
        let is_whole = self.index_block(handle, &block, false)?;
        if self.table.compare_index_keys(&self.contents.separator, root.key()).is_gt() {
            let message = "the key of an index partition is below the last key in it";
            self.report.damage_at(self.path, handle.offset, message);
        }
        Ok(is_whole)
    }

    /// Reads the data block of an index entry. Returns whether it could be read.
    fn index_entry(&mut self, entry: &IndexCursor, first_key: &[u8]) -> bool {
        let handle = entry.handle();
        self.note(handle, "data block");
        self.contents.counts.data_blocks += 1;
        self.contents.counts.data_size = self.contents.counts.data_size.max(handle.end());
        let read = self.data_block(handle, first_key);
        self.contents.separator.clear();
        self.contents.separator.extend_from_slice(entry.key());
        if let Err(error) = &read {
            self.report.error(self.path, error);
        }
        let last_key = &self.contents.last_key;
        if read.is_ok() && self.table.compare_index_key(entry.key(), last_key).is_lt() {
            let message = "the index key of this block is below the block's last key";
            self.report.damage_at(self.path, handle.offset, message);
        }
        read.is_ok()
    }

    fn data_block(&mut self, handle: BlockHandle, first_key: &[u8]) -> Result<()> {
        let table = self.table;
        let block = self.read_data_block(handle)?;
        let (bytes, layout) = (block.bytes(), block.layout());
        let damaged = |error| table.damaged(handle, error);
        let mut cursor = Cursor::default();
        cursor.seek_to_first(bytes, layout).map_err(damaged)?;
        let first = cursor.key();
        if !first_key.is_empty() && first_key != first {
            let message = "the index records a different first key for this block";
            self.report.damage_at(self.path, handle.offset, message);
        }
        let separator = &self.contents.separator;
        if !separator.is_empty()
            && cursor.valid()
            && table.compare_index_key(separator, first).is_ge()
        {
            let message = "the previous block's index key is not below this block's first key";
            self.report.damage_at(self.path, handle.offset, message);
        }
        while cursor.valid() {
            self.record(handle, cursor.key(), cursor.value(bytes))?;
            cursor.next(bytes, layout).map_err(damaged)?;
        }
        Ok(())
    }

    fn record(&mut self, handle: BlockHandle, stored_key: &[u8], value: &[u8]) -> Result<()> {
        let (path, table) = (self.path, self.table);
        let parsed = ParsedKey::parse(stored_key).map_err(|error| table.damaged(handle, error))?;
        let sequence = table.global_sequence().unwrap_or(parsed.sequence);
        let trailer = key::pack_trailer(sequence, parsed.value_type as u8);
        let mut internal_key = Vec::new();
        key::put_internal_key(&mut internal_key, parsed.user_key, trailer);
        let contents = &mut self.contents;
        if contents.counts.points == 0 {
            contents.first_key.clone_from(&internal_key);
        } else if key::compare_internal(table.comparator(), &contents.last_key, &internal_key)
            .is_ge()
        {
            let shown = parsed.user_key.escape_ascii();
            let message = format!("keys out of order at key '{shown}' of the block here");
            self.report.damage_at(path, handle.offset, message);
        }
        contents.last_key = internal_key;
        contents.counts.points += 1;
        contents.counts.raw_key_size += stored_key.len() as u64;
        contents.counts.raw_value_size += value.len() as u64;
        if !self.is_listed(sequence) {
            let message = format!("sequence number {sequence} is not among those in the MANIFEST");
            self.report.damage_at(path, handle.offset, message);
        }
        match parsed.value_type {
            ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp => {
                self.contents.counts.deletions += 1;
            }
            ValueType::Merge => self.contents.counts.merges += 1,
            ValueType::RangeDeletion => {
                let message = "a range tombstone in a data block";
                self.report.damage_at(path, handle.offset, message);
            }
            _ => {}
        }
        let blobs = for_each_blob_index(parsed.value_type, value, |index| {
            self.blob(parsed.user_key, index);
            Ok(())
        });
        if let Err(error) = blobs {
            self.report.error(path, &table.damaged(handle, error));
        }
        self.ask_filter(parsed.user_key)
    }

    /// Whether a sequence number is within the bounds that the MANIFEST records for the table.
    fn is_listed(&self, sequence: Sequence) -> bool {
        self.listed
            .is_none_or(|file| (file.smallest_sequence..=file.largest_sequence).contains(&sequence))
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
        let cursor = &mut self.contents.filter_cursor;
        let (whole, _) = self.table.may_contain(&access, user_key, cursor)?;
        let prefix = self.table.may_contain_prefix(&access, user_key, cursor)?;
        if (!whole || !prefix) && !self.contents.filter_denied {
            self.contents.filter_denied = true;
            let shown = user_key.escape_ascii();
            let message = format!("the filter excludes key '{shown}', which the table has");
            self.report.damage(self.path, message);
        }
        Ok(())
    }

    fn range_tombstones(&mut self) -> Result<()> {
        let table = self.table;
        table.for_each_range_tombstone(|start, end| {
            let counts = &mut self.contents.counts;
            counts.range_deletions += 1;
            counts.raw_key_size += start.len() as u64;
            counts.raw_value_size += end.len() as u64;
            let parsed = ParsedKey::parse(start)?;
            let sequence = table.global_sequence().unwrap_or(parsed.sequence);
            if !self.is_listed(sequence) {
                let message =
                    format!("a range tombstone's sequence number {sequence} is not among those in the MANIFEST");
                self.report.damage(self.path, message);
            }
            Ok(())
        })
    }

    /// Checks the bounds that the MANIFEST records for the table. Without range tombstones, the
    /// bounds must be the first and the last key; with range tombstones, they may be wider.
    fn check_bounds(&mut self) {
        let Contents { counts, first_key, last_key, .. } = &self.contents;
        let Some(listed) = self.listed.filter(|_| counts.points > 0) else { return };
        let comparator = self.table.comparator();
        let smallest = key::compare_internal(comparator, first_key, &listed.smallest);
        let largest = key::compare_internal(comparator, last_key, &listed.largest);
        let exact = counts.range_deletions == 0;
        if smallest.is_lt() || (exact && smallest.is_ne()) {
            self.report.damage(self.path, "its first key is not the smallest in the MANIFEST");
        }
        if largest.is_gt() || (exact && largest.is_ne()) {
            self.report.damage(self.path, "its last key is not the largest in the MANIFEST");
        }
    }

    fn check_properties(&mut self) {
        let properties = self.table.properties();
        let counts = &self.contents.counts;
        let (points, ranges) = (counts.points, counts.range_deletions);
        let counts_all = self.table.counts_all_records();
        let exact = |found: u64| found..=found;
        let least = |least: u64, found: u64| if counts_all { found..=found } else { least..=found };
        let claims = [
            ("entries", properties.num_entries, least(points, points + ranges)),
            ("deletions", properties.num_deletions, least(0, counts.deletions + ranges)),
            ("merge operands", properties.num_merge_operands, least(0, counts.merges)),
            ("range tombstones", properties.num_range_deletions, least(0, ranges)),
            ("bytes of keys", properties.raw_key_size, exact(counts.raw_key_size)),
            ("bytes of values", properties.raw_value_size, exact(counts.raw_value_size)),
        ];
        for (what, claimed, right) in claims {
            let found = right.end();
            if !right.contains(&claimed) {
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
