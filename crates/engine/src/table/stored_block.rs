//! A data block with its compressed form, as a table stores it.

use tailwater_format::compress::Compression;
use tailwater_format::table::BlockChecksum;

/// A data block of a table, and its compressed form.
///
/// A compaction that changes none of the block's records would compress the same bytes again. It
/// writes the compressed form of the input instead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredBlock<'a> {
    contents: &'a [u8],
    compressed: &'a [u8],
    compression: Compression,
    /// The description of the compression settings in the table's properties.
    settings: &'a [u8],
}

impl<'a> StoredBlock<'a> {
    /// Creates the block with these uncompressed `contents`. `stored` is the block in the file with
    /// its trailer, whose checksum must have been verified. `settings` is the description of the
    /// compression settings in the table's properties. Returns `None` if the block is stored
    /// uncompressed.
    pub(crate) fn new(contents: &'a [u8], stored: &'a [u8], settings: &'a [u8]) -> Option<Self> {
        let (compressed, compression) = BlockChecksum::split(stored).ok()?;
        let compression = Compression::from_byte(compression)?;
        let is_compressed = compression != Compression::None;
        is_compressed.then_some(Self { contents, compressed, compression, settings })
    }

    /// Returns the compressed form of `block`, if this is the same block and its table has the same
    /// compression `settings`.
    pub(crate) fn compressed_form(
        &self,
        block: &[u8],
        compression: Compression,
        settings: &[u8],
    ) -> Option<&'a [u8]> {
        let is_same =
            self.compression == compression && self.contents == block && self.settings == settings;
        is_same.then_some(self.compressed)
    }
}
