//! Writing of everything after the data blocks, by [`Builder::finish`].

use tailwater_format::block::{self, BuilderOptions};
use tailwater_format::filter::COMPATIBILITY_NAME;
use tailwater_format::key;
use tailwater_format::table::footer::FOOTER_LENGTH;
use tailwater_format::table::meta::MetaBlock;
use tailwater_format::table::{BLOCK_TRAILER_LENGTH, BlockHandle, Footer, Properties};
use tailwater_io::stream::SequentialWriter;

use super::{Builder, FinishedTable};
use crate::error::{Error, Result};
use crate::handover::TableHandover;

/// Upper bound of the size of properties, metaindex and footer, in bytes.
const SMALL_BLOCKS: u64 = 4096;

/// The names and locations of a table's meta blocks.
#[derive(Default)]
struct MetaBlocks {
    entries: Vec<(String, BlockHandle)>,
}

impl MetaBlocks {
    fn add(&mut self, block: MetaBlock<'_>, handle: BlockHandle) {
        self.entries.push((block.name(), handle));
    }
}

impl Builder {
    /// Completes the table, and returns its file writer, whose buffers may hold bytes that are not
    /// yet written. The caller must sync and close the file.
    ///
    /// # Errors
    /// Invalid argument, for a table without entries; the failure of an earlier call; errors from
    /// writing the file. After an error, the file is incomplete.
    pub fn finish(mut self) -> Result<(FinishedTable, SequentialWriter)> {
        let table = self.latched(Self::write_rest)?;
        Ok((table, self.output.into_writer()))
    }

    fn write_rest(&mut self) -> Result<FinishedTable> {
        if self.is_empty() {
            let error = Error::invalid_argument("a table without entries is not written");
            return Err(error.in_file(self.output.path()));
        }
        if !self.block.is_empty() {
            self.extent.end(&self.format.comparator, self.block.last_key());
            self.end_block(None, None)?;
        }
        self.output.set_warm(self.table_handover.as_ref().is_some_and(TableHandover::is_paged));
        let tail_start = self.output.offset();
        self.properties.tail_start_offset = tail_start;

        let mut meta = MetaBlocks::default();
        self.write_filter(&mut meta)?;
        let index = self.write_index(&mut meta)?;
        self.write_range_tombstones(&mut meta)?;
        self.write_properties(&mut meta)?;
        self.write_metaindex_and_footer(meta, index)?;
        Ok(FinishedTable {
            size: self.output.offset(),
            smallest: std::mem::take(&mut self.extent.smallest),
            largest: std::mem::take(&mut self.extent.largest),
            smallest_sequence: self.extent.smallest_sequence,
            largest_sequence: self.extent.largest_sequence,
            oldest_blob_file_number: self.extent.oldest_blob_file_number,
            tail_size: self.output.offset() - tail_start,
            unique_id: self.origin.unique_id(),
            properties: std::mem::take(&mut self.properties),
            table_handover: self.table_handover.take(),
        })
    }

    fn write_filter(&mut self, meta: &mut MetaBlocks) -> Result<()> {
        let Some(filter) = self.filter.take().filter(|filter| filter.num_entries() > 0) else {
            return Ok(());
        };
        self.properties.num_filter_entries = filter.num_entries() as u64;
        let mut block = filter.finish().ok_or_else(|| {
            let message = "building the filter twice gave different results";
            Error::corruption_at(self.output.path(), self.output.offset(), message)
        })?;
        self.properties.filter_size = block.len() as u64;
        let written = self.output.write_plain(&mut block)?;
        meta.add(MetaBlock::FullFilter(COMPATIBILITY_NAME), written.handle);
        Ok(())
    }

    fn write_index(&mut self, meta: &mut MetaBlocks) -> Result<BlockHandle> {
        self.properties.index_key_is_user_key = !self.index.internal_keys();
        let mut block = Vec::new();
        self.index.finish(&mut block).map_err(|error| self.unwritable(error))?;
        self.properties.index_size = (block.len() + BLOCK_TRAILER_LENGTH) as u64;
        let written = if self.format.options.enable_index_compression {
            self.output.write(&mut block)?
        } else {
            self.output.write_plain(&mut block)?
        };
        if !self.footer_has_index() {
            meta.add(MetaBlock::Index, written.handle);
        }
        Ok(written.handle)
    }

    fn write_range_tombstones(&mut self, meta: &mut MetaBlocks) -> Result<()> {
        let mut tombstones = std::mem::take(&mut self.range_tombstones);
        if tombstones.is_empty() {
            return Ok(());
        }
        let comparator = &self.format.comparator;
        tombstones.sort_by(|(a, _), (b, _)| key::compare_internal(comparator, a, b));
        let entries = tombstones.iter().map(|(start, end)| (&start[..], &end[..]));
        let handle = self.write_meta_block(BuilderOptions::META, entries)?;
        meta.add(MetaBlock::RangeDeletions, handle);
        Ok(())
    }

    fn write_properties(&mut self, meta: &mut MetaBlocks) -> Result<()> {
        self.properties.compression_name = Properties::compression_property(
            self.format.options.format_version,
            self.output.compression(),
            &self.output.compressions_used(),
        );
        let extent = &self.extent;
        self.properties.smallest_sequence = Some(extent.smallest_sequence);
        self.properties.largest_sequence = Some(extent.largest_sequence);
        if let Some(times) = &self.times {
            let lowest = extent.smallest_sequence.min(extent.smallest_preferred_sequence);
            self.properties.sequence_to_time_mapping =
                times.encode(lowest, extent.largest_sequence);
        }
        let entries = self.properties.to_entries();
        let entries = entries.iter().map(|(name, value)| (&name[..], &value[..]));
        let handle = self.write_meta_block(BuilderOptions::PROPERTIES, entries)?;
        meta.add(MetaBlock::Properties, handle);
        Ok(())
    }

    fn write_metaindex_and_footer(
        &mut self,
        mut meta: MetaBlocks,
        index: BlockHandle,
    ) -> Result<()> {
        meta.entries.sort();
        let values: Vec<Vec<u8>> = meta
            .entries
            .iter()
            .map(|(_, handle)| {
                let mut value = Vec::new();
                handle.encode(&mut value);
                value
            })
            .collect();
        let names = meta.entries.iter().map(|(name, _)| name.as_bytes());
        let entries = names.zip(values.iter().map(Vec::as_slice));
        let metaindex = self.write_meta_block(BuilderOptions::META, entries)?;
        let checksum = self.output.checksum();
        let footer = Footer {
            format_version: self.format.options.format_version,
            checksum_type: checksum.checksum_type,
            base_context: checksum.base_context,
            metaindex,
            index: self.footer_has_index().then_some(index),
        };
        let bytes = footer.encode(self.output.offset()).map_err(|error| self.unwritable(error))?;
        self.output.write_bytes(&bytes)
    }

    fn write_meta_block<'a>(
        &mut self,
        options: BuilderOptions,
        entries: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<BlockHandle> {
        let mut builder = block::Builder::new(options);
        for (key, value) in entries {
            builder.add(key, value);
        }
        let mut block = Vec::new();
        builder.finish(&mut block).map_err(|error| self.unwritable(error))?;
        Ok(self.output.write_plain(&mut block)?.handle)
    }

    /// Returns the approximate size, in bytes, that everything after the data blocks would have if
    /// the table were finished after the current block. It is an upper bound if separators in the
    /// index are on average not longer than keys.
    pub fn tail_size_estimate(&self) -> u64 {
        let filter = self.filter.as_ref().map_or(0, |filter| filter.size_estimate());
        let entry = BLOCK_TRAILER_LENGTH + FOOTER_LENGTH + self.block.last_key().len();
        // Each tombstone also takes two lengths and a restart offset.
        let tombstones = self.range_tombstones_length + 16 * self.range_tombstones.len();
        (filter + self.index.size_estimate() + entry + tombstones) as u64 + SMALL_BLOCKS
    }

    /// Whether the footer refers to the index. Otherwise the metaindex does.
    fn footer_has_index(&self) -> bool {
        self.format.options.format_version < 6
    }

    #[cold]
    fn unwritable(&self, error: tailwater_format::Error) -> Error {
        Error::decoding(self.output.path(), self.output.offset(), error)
    }
}
