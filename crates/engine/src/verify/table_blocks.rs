//! The blocks of a table that is being verified: its meta blocks, its data blocks as bytes, and the
//! gaps between blocks.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use tailwater_format::table::footer::FOOTER_LENGTH;
use tailwater_format::table::{BLOCK_TRAILER_LENGTH, BlockHandle};
use tailwater_format::varint::Reader;
use tailwater_format::version_edit::NewFile;
use tailwater_io::Purpose;
use tailwater_io::stream::SequentialReader;

use super::Report;
use super::table_contents::Contents;
use crate::blob::BlobCache;
use crate::block_cache::{Block, BlockKind};
use crate::error::{Error, Result};
use crate::table::{ReadProfile, TableReader};

/// Size of one read of a gap between blocks, in bytes.
const GAP_PIECE: usize = 4096;

/// The profile with which a verification reads a table's index and filter.
pub(super) const PROFILE: ReadProfile = ReadProfile::new(Purpose::Verification, true);

/// A table that is being verified.
pub(super) struct TableCheck<'a> {
    pub(super) path: &'a Path,
    pub(super) table: &'a TableReader,
    /// The MANIFEST's entry of the table, if there is one.
    pub(super) listed: Option<&'a NewFile>,
    pub(super) blobs: &'a BlobCache,
    /// The number of references to each blob file.
    pub(super) references: &'a mut BTreeMap<u64, u64>,
    pub(super) report: &'a mut Report,
    /// Reads the data blocks sequentially while their offsets ascend.
    pub(super) stream: SequentialReader,
    /// The parts of the file, by offset: length and description.
    pub(super) spans: BTreeMap<u64, (u64, &'static str)>,
    pub(super) contents: Contents,
}

impl TableCheck<'_> {
    /// Reads and checks the whole table.
    pub(super) fn run(&mut self) -> Result<()> {
        self.check_meta_blocks()?;
        for handle in self.table.filter_partitions(&PROFILE)? {
            self.note(handle, "filter partition");
            if let Err(error) = self.table.load(handle, BlockKind::Filter, &PROFILE) {
                self.report.error(self.path, &error);
            }
        }
        self.check_contents()?;
        self.report.entries += self.contents.entries();
        self.check_gaps()
    }

    /// Adds a block to the parts of the file, with a length that includes the block's trailer.
    pub(super) fn note(&mut self, handle: BlockHandle, what: &'static str) {
        self.spans.insert(handle.offset, (handle.size + BLOCK_TRAILER_LENGTH as u64, what));
    }

    /// Checks the footer, the metaindex, and every block that the metaindex names.
    fn check_meta_blocks(&mut self) -> Result<()> {
        let (file, footer) = (self.table.file(), self.table.footer());
        let footer_at = file.length().saturating_sub(FOOTER_LENGTH as u64);
        self.spans.insert(footer_at, (FOOTER_LENGTH as u64, "footer"));
        self.note(footer.metaindex, "metaindex");
        if let Some(index) = footer.index {
            self.note(index, "index");
        }
        let bytes = file.read(footer.metaindex, None, true, Purpose::Verification)?;
        let path = self.path;
        let damaged = |error| Error::decoding(path, footer.metaindex.offset, error);
        let block = Block::parse(bytes, BlockKind::Index).map_err(damaged)?;
        block.walk(damaged, |cursor| {
            let mut value = Reader::new(cursor.value(block.bytes()));
            let handle = BlockHandle::decode(&mut value).map_err(damaged)?;
            self.note(handle, "meta block");
            if let Err(error) = file.read(handle, None, true, Purpose::Verification) {
                let name = cursor.key().escape_ascii();
                self.report.error(path, &error.while_doing(format!("meta block '{name}'")));
            }
            Ok(())
        })
    }

    /// Reads a data block, verified and decompressed. A block before the stream's position is read
    /// on its own.
    pub(super) fn read_data_block(&mut self, handle: BlockHandle) -> Result<Block> {
        let (table, file) = (self.table, self.table.file());
        let length = file.length_with_trailer(handle)?;
        let dictionary = table.dictionary_for(BlockKind::Data);
        let bytes = if handle.offset >= self.stream.position() {
            let raw = self.stream.read(handle.offset, length)?;
            if raw.len() < length {
                let message = format!("a block of {length} bytes ends after {}", raw.len());
                return Err(Error::corruption_at(file.path(), handle.offset, message));
            }
            file.unpack_block(raw, handle, dictionary, true)?
        } else {
            file.read(handle, dictionary, true, Purpose::Verification)?
        };
        Block::parse(bytes, BlockKind::Data).map_err(|error| table.damaged(handle, error))
    }

    /// Checks that all bytes outside blocks are zeros, which are alignment padding, and that blocks
    /// do not overlap.
    fn check_gaps(&mut self) -> Result<()> {
        let mut end = 0;
        for (offset, (length, what)) in std::mem::take(&mut self.spans) {
            if offset < end {
                let message = format!("the {what} here begins inside the block before");
                self.report.damage_at(self.path, offset, message);
            }
            // A block that extends past the end of the file was reported when it was read.
            self.check_zeros(end..offset.min(self.table.file().length()))?;
            end = end.max(offset + length);
        }
        Ok(())
    }

    fn check_zeros(&mut self, gap: Range<u64>) -> Result<()> {
        let file = self.table.file().handle();
        let mut piece = [0; GAP_PIECE];
        let mut at = gap.start;
        while at < gap.end {
            let wanted = (gap.end - at).min(GAP_PIECE as u64) as usize;
            let count = file.read_full_at(&mut piece[..wanted], at, Purpose::Verification)?;
            if let Some(place) = piece[..count].iter().position(|&byte| byte != 0) {
                let message = "a byte between blocks that is not zero";
                self.report.damage_at(self.path, at + place as u64, message);
                return Ok(());
            }
            // The read returns fewer than `wanted` bytes only if the file was truncated during
            // verification.
            at += wanted as u64;
        }
        Ok(())
    }
}
