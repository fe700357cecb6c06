//! The blocks of a table that is being verified.

use std::collections::BTreeMap;

use tailwater_format::table::{BLOCK_TRAILER_LENGTH, BlockHandle};
use tailwater_io::Purpose;
use tailwater_io::stream::SequentialReader;

use crate::block_cache::{Block, BlockKind};
use crate::error::{Error, Result};
use crate::table::TableReader;

/// The parts of a table's file, by offset: length and description.
pub(super) type Spans = BTreeMap<u64, (u64, &'static str)>;

/// Adds a block to `spans`, with a length that includes the block's trailer.
pub(super) fn note(spans: &mut Spans, handle: BlockHandle, what: &'static str) {
    spans.insert(handle.offset, (handle.size + BLOCK_TRAILER_LENGTH as u64, what));
}

/// Reads a table's data blocks sequentially while their offsets ascend. A block before the current
/// position is read on its own.
pub(super) struct BlockStream {
    pub(super) stream: SequentialReader,
}

impl BlockStream {
    /// Reads the data block at `handle`, verified and decompressed.
    pub(super) fn block(&mut self, table: &TableReader, handle: BlockHandle) -> Result<Block> {
        let file = table.file();
        let length = file.length_with_trailer(handle)?;
        let dictionary = table.dictionary_for(BlockKind::Data);
        let bytes = if handle.offset >= self.stream.position() {
            let raw = self.stream.read(handle.offset, length)?;
            if raw.len() < length {
                let message = format!("a block of {length} bytes ends after {}", raw.len());
                return Err(Error::corruption_at(file.path(), handle.offset, message));
            }
            file.unpack_read_ahead(raw, handle, dictionary, true)?
        } else {
            file.read(handle, dictionary, true, Purpose::Verification)?
        };
        Block::parse(bytes, BlockKind::Data).map_err(|error| table.damaged(handle, error))
    }
}
