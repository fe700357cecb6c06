//! Building of tables that RocksDB reads as its own.
//!
//! A [`Builder`] takes entries in the order of their internal keys, and range tombstones in any
//! order. Flush, recovery, compaction and the writers of tables for ingestion all use it. Its
//! parameters are the [`Format`] shared by a column family's tables, the [`TableCompression`] of
//! the level, and the [`Origin`].
//!
//! # Invariants
//! - Keys ascend strictly; an entry out of order is refused and not added.
//! - No block is longer than [`block_length_max`]. The owner ends the table before its index or its
//!   block of range tombstones would be, and starts another ([`Builder::is_index_half_full`],
//!   [`Builder::has_tombstone_room`]).
//! - Blocks end where RocksDB ends them, and hold the bytes that RocksDB would write.
//! - A data block that a compaction does not change keeps its compressed form, if the input states
//!   the same compression settings.
//! - Properties count exactly what was added: the next compaction checks the counts.
//! - The first failure is final: nothing is added after it, and every later call returns it.
//!
//! # Steps
//! 1. Data blocks are written as they fill up. Each block's index entry is added when the next
//!    block's first key is known, so that a short separator between the two blocks can be used.
//! 2. [`Builder::finish`] writes the last data block, then filter, index, range tombstones,
//!    properties, metaindex and footer.
//! 3. The owner syncs the file, then its directory, then adds it to the MANIFEST. The builder never
//!    syncs.
//!
//! # Crash
//! Until the last step, no MANIFEST names the file. After a crash, recovery removes such a file. A
//! partial file cannot be mistaken for a table: the footer is written last, and checksums protect
//! the bytes before it.
//!
//! Source: `table/block_based/block_based_table_builder.cc`, `db/builder.cc`, `FileMetaData` in
//! `db/version_edit.{h,cc}`.

mod block_writer;
mod compression;
mod extent;
mod filter;
mod finished;
mod format;
mod origin;
mod tail;

use std::path::Path;
use std::sync::Arc;

use tailwater_format::block::{self, IndexBuilder};
use tailwater_format::compress::Compression;
use tailwater_format::key::{self, ParsedKey, Sequence, ValueType};
use tailwater_format::limits::{ENTRY_OVERHEAD, block_length_max};
use tailwater_format::table::{BlockChecksum, Properties};
use tailwater_io::stream::SequentialWriter;

use crate::block_cache::BlockCache;
use crate::error::{Error, Result};
use crate::handover::{TableHandover, Warmth};
use crate::memory_counters::{Consumer, Counted};
use crate::sequence_times::SequenceTimes;
use crate::table::StoredBlock;

use block_writer::BlockWriter;
pub use compression::TableCompression;
use extent::{Extent, tombstone_end};
use filter::FilterBuilder;
pub use finished::FinishedTable;
use format::BlockLimits;
pub use format::Format;
pub use origin::Origin;

/// Builds one table. Dropping the builder before [`Builder::finish`] leaves an incomplete file,
/// which the file's owner removes.
///
/// Used by one thread at a time. Once the builder's buffers have grown to the size of a block,
/// adding an entry allocates memory only for its eight-byte hash for the filter. Memory used until
/// the table is finished: two blocks, the index, the filter's hashes and the range tombstones.
#[derive(Debug)]
pub struct Builder {
    format: Arc<Format>,
    origin: Origin,
    output: BlockWriter,
    block: block::Builder,
    limits: BlockLimits,
    index: IndexBuilder,
    filter: Option<FilterBuilder>,
    /// The internal start key and the end user key of each range tombstone.
    range_tombstones: Vec<(Vec<u8>, Vec<u8>)>,
    range_tombstones_length: usize,
    extent: Extent,
    properties: Properties,
    /// Buffer for the finished block that is being written.
    finished_block: Vec<u8>,
    separator: Vec<u8>,
    /// The blocks that warm handover keeps in memory, if it is enabled.
    table_handover: Option<TableHandover>,
    /// Write times of sequence numbers, if they are to be stored in the table.
    times: Option<Arc<SequenceTimes>>,
    /// The memory of the index and the filter.
    counted: Counted,
    failure: Option<Error>,
}

impl Builder {
    /// Starts a table. `writer` writes to an empty file at `path`.
    ///
    /// # Errors
    /// Not supported, for a compression algorithm that cannot be written, or a compression level
    /// that the algorithm does not have.
    pub fn new(
        format: Arc<Format>,
        compression: &TableCompression,
        origin: Origin,
        path: &Path,
        writer: SequentialWriter,
    ) -> Result<Self> {
        let compressor =
            compression.compressor().map_err(|error| Error::decoding(path, 0, error))?;
        let checked_by_context = format.options.format_version >= 6;
        let checksum = BlockChecksum {
            checksum_type: format.checksum_type(),
            base_context: if checked_by_context { origin.base_context() } else { 0 },
        };
        let verify = format.options.verify_compression;
        Ok(Self {
            output: BlockWriter::new(writer, path, checksum, compressor, verify),
            block: block::Builder::new(format.block_options()),
            limits: format.block_limits(),
            index: IndexBuilder::new(format.index_options()),
            filter: FilterBuilder::new(&format),
            range_tombstones: Vec::new(),
            range_tombstones_length: 0,
            extent: Extent::empty(),
            properties: origin.properties(&format, compression),
            finished_block: Vec::new(),
            separator: Vec::new(),
            table_handover: None,
            times: None,
            counted: Counted::new(Consumer::NewTables, 0),
            failure: None,
            format,
            origin,
        })
    }

    /// Omits the filter, even if the table options request one. Used for the last level with
    /// `optimize_filters_for_hits`. Must be called before the first entry.
    #[must_use]
    pub fn without_filter(mut self) -> Self {
        self.filter = None;
        self
    }

    /// Charges the memory of the filter, while it is built, to `cache`, if it is given.
    #[must_use]
    pub(crate) fn with_filter_charge(mut self, cache: Option<&Arc<BlockCache>>) -> Self {
        if let Some((filter, cache)) = self.filter.as_mut().zip(cache) {
            filter.charge_to(Arc::clone(cache));
        }
        self
    }

    /// Enables warm handover: the blocks of this table whose records come from blocks that users
    /// read recently stay in memory.
    #[must_use]
    pub(crate) fn with_handover(mut self, table_handover: Option<TableHandover>) -> Self {
        self.table_handover = table_handover;
        self
    }

    /// Sets the samples of sequence numbers and their write times, which the builder stores in the
    /// table's properties.
    #[must_use]
    pub(crate) fn with_times(mut self, times: Option<Arc<SequenceTimes>>) -> Self {
        self.times = times;
        self
    }

    /// Adds an entry like [`Builder::add`], with the warmth of the input block that it comes from.
    /// If the entry begins a data block, and the data block before it is the one that `input`
    /// returns, that block is not compressed again.
    #[inline]
    pub(crate) fn add_warm<'i>(
        &mut self,
        internal_key: &[u8],
        value: &[u8],
        warmth: Warmth,
        input: impl FnOnce() -> Option<StoredBlock<'i>>,
    ) -> Result<()> {
        self.latched(|builder| builder.add_entry(internal_key, value, input))?;
        if let Some(table_handover) = &mut self.table_handover {
            table_handover.add(internal_key.len() + value.len(), warmth);
        }
        Ok(())
    }

    /// Adds an entry. Its internal key must be above all previous ones, and not a range deletion.
    ///
    /// # Errors
    /// Corruption, for a key that is out of order or not an internal key, or for a malformed blob
    /// index, entity or timed value; not supported, for an entry that does not fit a block; errors
    /// from writing the file, possibly from blocks written much earlier. Every later call returns
    /// the same error.
    pub fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        self.latched(|builder| builder.add_entry(internal_key, value, || None))
    }

    /// Adds a range tombstone. `start` is the internal key of its start, with the range deletion
    /// type; `end` is the user key of its end. The table's key range grows to include the
    /// tombstone.
    ///
    /// # Errors
    /// Corruption, for a key of another type or an empty range. Every later call returns the same
    /// error.
    pub fn add_range_tombstone(&mut self, start: &[u8], end: &[u8]) -> Result<()> {
        self.add_range_tombstone_within(start, end, start, &tombstone_end(end))
    }

    /// Adds a range tombstone that a compaction truncated at the bounds of the file. The tombstone
    /// is stored from `start` to `end`. The table's key range grows only to include the internal
    /// keys from `smallest` to `largest`, both included.
    ///
    /// # Errors
    /// The errors of [`Builder::add_range_tombstone`]; corruption, for a `smallest` above
    /// `largest`.
    pub fn add_range_tombstone_within(
        &mut self,
        start: &[u8],
        end: &[u8],
        smallest: &[u8],
        largest: &[u8],
    ) -> Result<()> {
        self.latched(|builder| builder.add_tombstone(start, end, smallest, largest))
    }

    /// Whether the index has room for another entry, whose internal key has `key_length` bytes.
    /// Keys of ordinary length never fill an index.
    #[inline]
    pub(crate) fn has_index_room(&self, key_length: usize) -> bool {
        self.index_length_with(key_length) <= block_length_max()
    }

    /// Whether the index would be more than half full with another entry. The table should then end
    /// before the entry, unless the entry is a version of the last key: the other half of the index
    /// is for the versions of a key, which must be in one table.
    #[inline]
    pub(crate) fn is_index_half_full(&self, key_length: usize) -> bool {
        self.index_length_with(key_length) > block_length_max() / 2
    }

    /// Returns an upper bound of the length of the index, in bytes, if the table ended after
    /// another entry, which begins a data block.
    #[inline]
    fn index_length_with(&self, key_length: usize) -> usize {
        let keys = self.block.last_key().len() + key_length;
        self.index.length_max() + keys + 2 * ENTRY_OVERHEAD
    }

    /// Whether `count` more range tombstones fit the table, each of whose start and end together
    /// have `length` bytes.
    #[inline]
    pub(crate) fn has_tombstone_room(&self, count: usize, length: usize) -> bool {
        let present = self.range_tombstones.len() * ENTRY_OVERHEAD + self.range_tombstones_length;
        present + count * (length + ENTRY_OVERHEAD) <= block_length_max()
    }

    /// Returns the user key of the entry added last; empty if there is none.
    pub(crate) fn last_user_key(&self) -> &[u8] {
        key::user_key(self.block.last_key())
    }

    /// Returns the sequence number of the entry added last; 0 if there is none.
    pub(crate) fn last_sequence(&self) -> Sequence {
        key::split(self.block.last_key()).map_or(0, |(_, trailer)| trailer >> 8)
    }

    /// Whether neither an entry nor a range tombstone was added.
    pub fn is_empty(&self) -> bool {
        self.properties.num_entries == 0
    }

    /// Returns the number of entries and range tombstones added.
    pub fn num_entries(&self) -> u64 {
        self.properties.num_entries
    }

    /// Returns the size of the complete blocks in the file, in bytes. This is the size that RocksDB
    /// compares with a table's target size.
    pub fn size(&self) -> u64 {
        self.output.offset()
    }

    /// Returns an estimate of the size, in bytes, that the file would have if it were finished now.
    /// The estimate is usually too high.
    pub fn size_estimate(&self) -> u64 {
        let pending = if self.block.is_empty() {
            0
        } else {
            self.block.size_estimate() as u64 + self.format.alignment()
        };
        self.size() + pending + self.tail_size_estimate()
    }

    /// Abandons the table. Its file is left incomplete, and the caller must remove the file.
    pub fn abandon(self) {
        // Dropping the writer waits for I/O calls in progress and cancels those that have not
        // begun.
        drop(self.output);
    }

    fn latched<T>(&mut self, call: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let answer = call(self);
        if let Err(failure) = &answer {
            self.failure = Some(failure.clone());
        }
        answer
    }

    fn add_entry<'i>(
        &mut self,
        internal_key: &[u8],
        value: &[u8],
        input: impl FnOnce() -> Option<StoredBlock<'i>>,
    ) -> Result<()> {
        let key = ParsedKey::parse(internal_key).map_err(|error| self.refused(error))?;
        self.check_entry(internal_key, &key, value)?;
        if self.limits.end_before(&self.block, internal_key.len(), value.len()) {
            self.end_block(Some(internal_key), input())?;
        }
        self.extent
            .add(internal_key, &key, value)
            .map_err(|error| Error::decoding(self.output.path(), self.output.offset(), error))?;
        if let Some(filter) = &mut self.filter {
            filter.add(key.user_key);
        }
        self.block.add(internal_key, value);
        self.count(key.value_type, internal_key.len(), value.len());
        Ok(())
    }

    fn check_entry(&self, internal_key: &[u8], key: &ParsedKey<'_>, value: &[u8]) -> Result<()> {
        let alone = block::Builder::length_with_one(internal_key.len(), value.len());
        if alone > block_length_max() {
            return Err(self.too_long(key.user_key.len(), value.len()));
        }
        if key.value_type == ValueType::RangeDeletion {
            return Err(self.out_of_place("a range deletion among the entries", internal_key));
        }
        // A data block ends only when the first entry of the next block is added. So the current
        // block is empty only if this is the table's first entry.
        let comparator = &self.format.comparator;
        let last = self.block.last_key();
        if !self.block.is_empty() && key::compare_internal(comparator, last, internal_key).is_ge() {
            return Err(
                self.out_of_place("an entry that is not above the previous one", internal_key)
            );
        }
        Ok(())
    }

    fn add_tombstone(
        &mut self,
        start: &[u8],
        end: &[u8],
        smallest: &[u8],
        largest: &[u8],
    ) -> Result<()> {
        let key = ParsedKey::parse(start).map_err(|error| self.refused(error))?;
        let comparator = &self.format.comparator;
        if key.value_type != ValueType::RangeDeletion
            || comparator.compare(key.user_key, end).is_ge()
            || key::compare_internal(comparator, smallest, largest).is_gt()
        {
            return Err(self.out_of_place("an empty range tombstone", start));
        }
        self.extent.add_sequence(key.sequence);
        self.extent.add_range(comparator, smallest, largest);
        self.range_tombstones.push((start.to_vec(), end.to_vec()));
        self.range_tombstones_length += start.len() + end.len();
        self.count(ValueType::RangeDeletion, start.len(), end.len());
        Ok(())
    }

    #[inline]
    fn count(&mut self, value_type: ValueType, key_length: usize, value_length: usize) {
        let properties = &mut self.properties;
        properties.num_entries += 1;
        properties.raw_key_size += key_length as u64;
        properties.raw_value_size += value_length as u64;
        match value_type {
            ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp => {
                properties.num_deletions += 1
            }
            ValueType::RangeDeletion => {
                properties.num_deletions += 1;
                properties.num_range_deletions += 1;
            }
            ValueType::Merge => properties.num_merge_operands += 1,
            _ => {}
        }
    }

    /// Writes the data block, which is not empty, and adds its index entry. `next` is the first
    /// internal key of the next block. `input` is the input block that may be the same block.
    fn end_block(&mut self, next: Option<&[u8]>, input: Option<StoredBlock<'_>>) -> Result<()> {
        let shortening = self.format.index_shortening();
        let last = self.block.last_key();
        let separator = &mut self.separator;
        if !shortening.separate(&self.format.comparator, last, next, separator) {
            self.index.require_internal_keys();
        }
        self.finished_block.clear();
        self.block
            .finish(&mut self.finished_block)
            .map_err(|error| Error::decoding(self.output.path(), self.output.offset(), error))?;
        if let Some(table_handover) = &mut self.table_handover {
            let is_warm = table_handover.end_block(self.output.offset(), &self.finished_block);
            self.output.set_warm(is_warm);
        }
        let tries_compression = self.output.tries_compression(self.finished_block.len());
        let compressed = input.and_then(|input| {
            let settings = &self.properties.compression_options;
            input.compressed_form(&self.finished_block, self.output.compression(), settings)
        });
        let written = match compressed {
            Some(compressed) => self.output.write_compressed(&self.finished_block, compressed)?,
            None => self.output.write(&mut self.finished_block)?,
        };
        if self.format.alignment() > 0 {
            self.output.pad(self.format.alignment())?;
        }
        self.index.add(&self.separator, written.handle, &[]);
        // The index is built in two forms.
        let index = 2 * self.index.length_max();
        let filter = self.filter.as_ref().map_or(0, FilterBuilder::memory);
        self.counted.follow(index + filter);
        let properties = &mut self.properties;
        properties.num_data_blocks += 1;
        properties.data_size = self.output.offset();
        if written.compression == Compression::None {
            if tries_compression {
                properties.num_data_blocks_compression_rejected += 1;
            } else {
                properties.num_data_blocks_compression_bypassed += 1;
            }
        }
        Ok(())
    }

    /// Converts the error of an encoder that refused an entry, and adds the file's path and offset.
    #[cold]
    fn refused(&self, error: tailwater_format::Error) -> Error {
        Error::decoding(self.output.path(), self.output.offset(), error)
            .while_doing("writing an entry")
    }

    #[cold]
    fn too_long(&self, key_length: usize, value_length: usize) -> Error {
        let feature = format!(
            "a table with a key of {key_length} and a value of {value_length} bytes, together more \
             than a block can have"
        );
        Error::not_supported(feature).in_file(self.output.path())
    }

    #[cold]
    fn out_of_place(&self, what: &str, key: &[u8]) -> Error {
        let message = format!("refused to write {what}: '{}'", key.escape_ascii());
        Error::corruption_at(self.output.path(), self.output.offset(), message)
    }
}
