//! A data block with its compressed form, as a table stores it.

use tailwater_format::compress::Compression;
use tailwater_format::table::{BlockChecksum, BlockHandle};

use crate::block_cache::{Block, BlockKind};
use crate::table::TableReader;

/// A data block of a table, and its bytes in the file.
///
/// A compaction that changes none of the block's records would compress the same bytes again. It
/// writes the compressed form of the input instead.
#[derive(Clone, Copy)]
pub(crate) struct StoredBlock<'a> {
    pub(super) table: &'a TableReader,
    pub(super) handle: BlockHandle,
    pub(super) block: &'a Block,
    /// The block in the file, with its trailer. They may never have been verified, because the
    /// block may have come from a cache.
    pub(super) stored: &'a [u8],
}

impl<'a> StoredBlock<'a> {
    /// Returns the compressed form of `block`, if this is the same block, and its table has the
    /// same compression `settings`, which are described as in properties. Returns `None` if the
    /// block is stored uncompressed, if a dictionary is needed, and if nothing proves that the
    /// stored bytes are undamaged.
    pub(crate) fn compressed_form(
        &self,
        block: &[u8],
        compression: Compression,
        settings: &[u8],
    ) -> Option<&'a [u8]> {
        let Self { table, handle, stored, .. } = self;
        let (_, stored_compression) = BlockChecksum::split(stored).ok()?;
        let is_same = compression != Compression::None
            && Compression::from_byte(stored_compression) == Some(compression)
            && table.dictionary_for(BlockKind::Data).is_none()
            && table.properties().compression_options == settings
            && self.block.bytes() == block;
        if is_same { table.file().verified(stored, *handle) } else { None }
    }
}
