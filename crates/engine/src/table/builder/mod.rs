//! Writing a table: from entries in order to a file that RocksDB reads as its own.
//!
//! A [`Builder`] takes entries in the order of their internal keys, and range tombstones in any.
//! Flush, recovery, compaction and whoever makes tables to be ingested use it alike; what differs
//! is the [`Format`], which a column family's tables share, the [`TableCompression`] of the level,
//! and the [`Origin`].
//!
//! # Invariants
//! - Keys ascend strictly; an entry out of order is refused before anything of it is kept.
//! - Blocks end where RocksDB ends them, and hold the bytes that RocksDB would write.
//! - Properties count exactly what was added: the next compaction compares.
//! - The first failure latches: nothing is added after it, and every later call answers with it.
//!
//! # Steps
//! 1. Data blocks go to the file as they fill up. The index entry of each is made when the key
//!    after it is known, so that a short key between the two can stand for it.
//! 2. [`Builder::finish`] writes the last data block, then filter, index, range tombstones,
//!    properties, metaindex and footer.
//! 3. The owner syncs the file, then its directory, then tells the MANIFEST. The builder never
//!    syncs.
//!
//! # Crash
//! Until the last step the file is one that no MANIFEST names, and recovery removes it. What there
//! is of it is not taken for a table: the footer that makes it one is written last, and the bytes
//! before it are checked by what they hold.
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
use tailwater_format::key::{self, ParsedKey, ValueType};
use tailwater_format::table::{BlockChecksum, Properties};
use tailwater_io::stream::SequentialWriter;

use crate::handover::{Takeover, Warmth};
use crate::sequence_times::SequenceTimes;
use crate::{Error, Result};

use block_writer::BlockWriter;
pub use compression::TableCompression;
use extent::{Extent, tombstone_end};
use filter::FilterBuilder;
pub use finished::FinishedTable;
use format::BlockLimits;
pub use format::Format;
pub use origin::Origin;

/// Builds one table. Dropping it before [`Builder::finish`] leaves a file that is no table, for its
/// owner to remove.
///
/// One thread at a time. Once its buffers have grown to the size of a block, adding an entry
/// allocates nothing but the eight bytes of its hash for the filter. Memory: two blocks, the index,
/// the filter's hashes and the range tombstones, until the table is finished.
#[derive(Debug)]
pub struct Builder {
    format: Arc<Format>,
    origin: Origin,
    output: BlockWriter,
    block: block::Builder,
    limits: BlockLimits,
    index: IndexBuilder,
    filter: Option<FilterBuilder>,
    /// Internal start keys and end keys, and how long these are together.
    range_tombstones: Vec<(Vec<u8>, Vec<u8>)>,
    range_tombstones_length: usize,
    extent: Extent,
    properties: Properties,
    /// A finished block on its way to the file.
    finished_block: Vec<u8>,
    separator: Vec<u8>,
    /// What it takes over of what users read, if anything is.
    takeover: Option<Takeover>,
    /// When sequence numbers were written, if the table is to tell it.
    times: Option<Arc<SequenceTimes>>,
    failure: Option<Error>,
}

impl Builder {
    /// Begins the table that `writer` writes, an empty file at `path`.
    ///
    /// # Errors
    /// Not supported, for a compression that is not written or a level that it does not have.
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
            takeover: None,
            times: None,
            failure: None,
            format,
            origin,
        })
    }

    /// The same without a filter, whatever the format says: for the last level, where
    /// `optimize_filters_for_hits` wants none. It comes before the first entry.
    #[must_use]
    pub fn without_filter(mut self) -> Self {
        self.filter = None;
        self
    }

    /// Has blocks stay in memory that come from what users read.
    #[must_use]
    pub(crate) fn taking_over(mut self, takeover: Option<Takeover>) -> Self {
        self.takeover = takeover;
        self
    }

    /// Has the table tell when its sequence numbers were written.
    #[must_use]
    pub(crate) fn telling_times(mut self, times: Option<Arc<SequenceTimes>>) -> Self {
        self.times = times;
        self
    }

    /// As [`Builder::add`], of an entry that users get at in some way.
    #[inline]
    pub(crate) fn add_warm(
        &mut self,
        internal_key: &[u8],
        value: &[u8],
        warmth: Warmth,
    ) -> Result<()> {
        self.add(internal_key, value)?;
        if let Some(takeover) = &mut self.takeover {
            takeover.add(internal_key.len() + value.len(), warmth);
        }
        Ok(())
    }

    /// Adds an entry: an internal key above all those before, of any type but a range deletion.
    ///
    /// # Errors
    /// Corruption, for a key that is out of order or no internal key, and a blob index, entity or
    /// timed value that is malformed; not supported, for a key or value of 4 GiB; those of the
    /// file, which may be of blocks written long before. Each is latched.
    pub fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        self.latched(|builder| builder.add_entry(internal_key, value))
    }

    /// Adds a range tombstone: the internal key of its start, of the type of range deletions, and
    /// the user key of its end. The table then reaches as far as the tombstone does.
    ///
    /// # Errors
    /// Corruption, for a key of another type or a range that ends before it begins; latched.
    pub fn add_range_tombstone(&mut self, start: &[u8], end: &[u8]) -> Result<()> {
        self.add_range_tombstone_within(start, end, start, &tombstone_end(end))
    }

    /// Adds a range tombstone of which only the part between two internal keys, both included, is
    /// this table's to cover: one that a compaction has cut at the bounds of the file.
    ///
    /// # Errors
    /// As [`Builder::add_range_tombstone`], and corruption for bounds that are out of order.
    pub fn add_range_tombstone_within(
        &mut self,
        start: &[u8],
        end: &[u8],
        smallest: &[u8],
        largest: &[u8],
    ) -> Result<()> {
        self.latched(|builder| builder.add_tombstone(start, end, smallest, largest))
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.properties.num_entries == 0
    }

    /// How many entries and range tombstones were added.
    pub fn num_entries(&self) -> u64 {
        self.properties.num_entries
    }

    /// How many bytes the blocks that are complete take in the file: what RocksDB holds against a
    /// table's target size.
    pub fn size(&self) -> u64 {
        self.output.offset()
    }

    /// How many bytes the file would have at most, about, if it were finished now.
    pub fn size_estimate(&self) -> u64 {
        let pending = match self.block.is_empty() {
            true => 0,
            false => self.block.size_estimate() as u64 + self.format.alignment(),
        };
        self.size() + pending + self.tail_size_estimate()
    }

    /// Gives the table up. What is in the file is no table; the owner removes it.
    pub fn abandon(self) {
        // Dropping the writer waits for the calls that run and lets the rest do nothing.
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

    fn add_entry(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        let key = ParsedKey::parse(internal_key).map_err(|error| self.refused(error))?;
        self.check_entry(internal_key, &key, value)?;
        if self.limits.end_before(&self.block, internal_key.len(), value.len()) {
            self.end_block(Some(internal_key))?;
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
        if internal_key.len().max(value.len()) > u32::MAX as usize {
            return Err(Error::not_supported("a key or value of 4 GiB").in_file(self.output.path()));
        }
        if key.value_type == ValueType::RangeDeletion {
            return Err(self.out_of_place("a range deletion among the entries", internal_key));
        }
        // The block is empty before the first entry of all only: one ends when the next begins.
        let comparator = &self.format.comparator;
        let last = self.block.last_key();
        if !self.block.is_empty() && key::compare_internal(comparator, last, internal_key).is_ge() {
            return Err(
                self.out_of_place("an entry that is not above the one before", internal_key)
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
            return Err(self.out_of_place("a range tombstone of no range", start));
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

    /// Writes the data block, which is not empty, and its index entry. `next` is the internal key
    /// that the block after it begins with.
    fn end_block(&mut self, next: Option<&[u8]>) -> Result<()> {
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
        if let Some(takeover) = &mut self.takeover {
            let is_warm = takeover.end_block(self.output.offset(), &self.finished_block);
            self.output.set_warm(is_warm);
        }
        let written = self.output.write(&mut self.finished_block)?;
        if self.format.alignment() > 0 {
            self.output.pad(self.format.alignment())?;
        }
        self.index.add(&self.separator, written.handle, &[]);
        let properties = &mut self.properties;
        properties.num_data_blocks += 1;
        properties.data_size = self.output.offset();
        if written.compression == Compression::None {
            match self.output.compression() {
                Compression::None => properties.num_data_blocks_compression_bypassed += 1,
                _ => properties.num_data_blocks_compression_rejected += 1,
            }
        }
        Ok(())
    }

    /// What the format refuses of an entry for the file as it stands.
    #[cold]
    fn refused(&self, error: tailwater_format::Error) -> Error {
        Error::decoding(self.output.path(), self.output.offset(), error)
            .while_doing("an entry to be written")
    }

    #[cold]
    fn out_of_place(&self, what: &str, key: &[u8]) -> Error {
        let message = format!("to be written: {what}: '{}'", key.escape_ascii());
        Error::corruption_at(self.output.path(), self.output.offset(), message)
    }
}
