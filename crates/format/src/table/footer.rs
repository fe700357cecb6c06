//! The footer: the last bytes of a table, which locate everything else in it.
//!
//! ```text
//! format_version 2-5                        format_version 6 and later
//!   0  checksum type, one byte                0  checksum type, one byte
//!   1  metaindex handle, two varints          1  extended magic number 3e 00 7a 00
//!      index handle, two varints              5  checksum of the footer, with zeros here
//!      zeros up to 41                         9  base context checksum
//!                                            13  length of the metaindex before the footer
//!                                            17  zeros; the last eight are checked
//!  41  format version, four bytes            41  format version, four bytes
//!  45  magic number, eight bytes             45  magic number, eight bytes
//! ```
//!
//! Numbers are little-endian. From version 6 on, the index is located through the metaindex. The
//! footer's checksum then has the same type as the checksums of the table's blocks, and depends on
//! the footer's offset, as a block's checksum depends on the block's offset. Version 0 has
//! other magic numbers, and it has neither the checksum type nor the format version. Source:
//! `table/format.cc`.

use crate::checksum::{ChecksumType, context_modifier};
use crate::varint::{Reader, put_varint64};
use crate::{Error, Result};

use super::trailer::{BLOCK_TRAILER_LENGTH, BlockChecksum};

/// The length of a footer in every supported format version, in bytes.
pub const FOOTER_LENGTH: usize = 53;
/// The oldest format version that is supported.
pub const MIN_FORMAT_VERSION: u32 = 2;
/// The newest format version that is supported.
pub const MAX_FORMAT_VERSION: u32 = 7;
/// The longest encoding of a [`BlockHandle`], in bytes.
pub const MAX_BLOCK_HANDLE_LENGTH: usize = 20;

const BLOCK_BASED_MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
const LEGACY_BLOCK_BASED_MAGIC: u64 = 0xdb47_7524_8b80_fb57;
const PLAIN_MAGIC: u64 = 0x8242_2296_63bf_9564;
const LEGACY_PLAIN_MAGIC: u64 = 0x4f34_18eb_7a8f_13b8;
const CUCKOO_MAGIC: u64 = 0x9267_89d0_c5f1_7873;

const EXTENDED_MAGIC: [u8; 4] = [0x3e, 0x00, 0x7a, 0x00];
/// Offset of the footer's own checksum in the footer.
const CHECKSUM_AT: usize = 5;
/// Offset of the format version in the footer.
const VERSION_AT: usize = 41;

/// The location of a block in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BlockHandle {
    /// The offset of the block's first byte.
    pub offset: u64,
    /// The length of the block in bytes, without its trailer.
    pub size: u64,
}

impl BlockHandle {
    /// Reads a handle, which is encoded as two varints.
    ///
    /// # Errors
    /// Corruption, if the varints are incomplete or the end of the block, trailer included, does
    /// not fit in 64 bits.
    #[inline]
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let start = reader.offset();
        let offset = reader.varint64("block handle")?;
        let size = reader.varint64("block handle")?;
        let handle = Self { offset, size };
        if offset.checked_add(size).is_none_or(|end| end > u64::MAX - BLOCK_TRAILER_LENGTH as u64) {
            let found = format!("{size} bytes at {offset}");
            return Err(Error::corruption("block handle", start, "a block in a file", found));
        }
        Ok(handle)
    }

    /// Appends the handle's encoding, two varints.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint64(out, self.offset);
        put_varint64(out, self.size);
    }

    /// Returns the offset after the block and its trailer, where the next block may begin.
    #[inline]
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.size).saturating_add(BLOCK_TRAILER_LENGTH as u64)
    }
}

/// The footer of a block-based table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footer {
    /// The format version, 2 to 7.
    pub format_version: u32,
    /// Checksum type of the blocks and, in version 6 and later, of the footer.
    pub checksum_type: ChecksumType,
    /// A random number of this file that all its checksums depend on. It is nonzero in version 6
    /// and later, and 0 in earlier versions.
    pub base_context: u32,
    /// The metaindex block.
    pub metaindex: BlockHandle,
    /// The index block in versions below 6. In later versions the metaindex locates it.
    pub index: Option<BlockHandle>,
}

impl Footer {
    /// Reads the footer at the end of `tail`, the last bytes of a file. `tail` begins at offset
    /// `tail_offset` of the file, and has at least [`FOOTER_LENGTH`] bytes, unless the file is
    /// shorter.
    ///
    /// # Errors
    /// Unsupported, for plain and cuckoo tables and unsupported format versions; corruption, for
    /// anything that is not a table, a checksum mismatch, or blocks that are empty or lie outside
    /// the file. Offsets in errors count from the footer's first byte.
    pub fn decode(tail: &[u8], tail_offset: u64) -> Result<Self> {
        let magic = match tail.last_chunk::<8>() {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => return Err(not_a_table(format!("{} bytes", tail.len()))),
        };
        match magic {
            BLOCK_BASED_MAGIC => {}
            LEGACY_BLOCK_BASED_MAGIC => {
                return Err(Error::unsupported("block-based table of format_version 0"));
            }
            PLAIN_MAGIC | LEGACY_PLAIN_MAGIC => return Err(Error::unsupported("plain table")),
            CUCKOO_MAGIC => return Err(Error::unsupported("cuckoo table")),
            _ => return Err(not_a_table(format!("magic number {magic:#018x}"))),
        }
        let (before, footer) = tail
            .split_last_chunk::<FOOTER_LENGTH>()
            .ok_or_else(|| not_a_table(format!("{} bytes", tail.len())))?;
        let offset = tail_offset.saturating_add(before.len() as u64);

        let mut version = Reader::new(footer.get(VERSION_AT..).unwrap_or_default());
        let format_version = version.fixed32("footer")?;
        if !(MIN_FORMAT_VERSION..=MAX_FORMAT_VERSION).contains(&format_version) {
            let feature = format!("block-based table of format_version {format_version}");
            return Err(Error::unsupported(feature));
        }
        let mut reader = Reader::new(footer);
        let byte = reader.u8("footer")?;
        let checksum_type = ChecksumType::from_byte(byte).ok_or_else(|| {
            Error::corruption("footer", 0, "a known checksum type", format!("{byte}"))
        })?;
        let decoded = if format_version >= 6 {
            Self::decode_checked(reader, footer, offset, format_version, checksum_type)?
        } else {
            Self {
                format_version,
                checksum_type,
                base_context: 0,
                metaindex: BlockHandle::decode(&mut reader)?,
                index: Some(BlockHandle::decode(&mut reader)?),
            }
        };
        for handle in [Some(decoded.metaindex), decoded.index].into_iter().flatten() {
            // No block is empty. If a handle here has size 0, the footer is one of version 6 or
            // later whose version number is damaged, and its extended magic number was read as a
            // handle.
            if handle.end() > offset || handle.size == 0 {
                let found = format!("{} bytes at {}", handle.size, handle.offset);
                return Err(Error::corruption("footer", 1, "blocks before the footer", found));
            }
        }
        Ok(decoded)
    }

    /// Reads the fields of version 6 and later; `reader` is positioned after the checksum type.
    fn decode_checked(
        mut reader: Reader<'_>,
        footer: &[u8; FOOTER_LENGTH],
        offset: u64,
        format_version: u32,
        checksum_type: ChecksumType,
    ) -> Result<Self> {
        let extended = reader.bytes(EXTENDED_MAGIC.len(), "footer")?;
        if extended != EXTENDED_MAGIC {
            let found = format!("{extended:02x?}");
            return Err(Error::corruption("footer", 1, "the extended magic number", found));
        }
        let stored = reader.fixed32("footer")?;
        let base_context = reader.fixed32("footer")?;
        if base_context == 0 {
            return Err(Error::corruption("footer", 9, "a base context checksum", "zero"));
        }
        let computed = footer_checksum(checksum_type, *footer, base_context, offset);
        if stored != computed {
            return Err(Error::corruption(
                "footer",
                CHECKSUM_AT,
                format!("checksum {computed:#010x}"),
                format!("{stored:#010x}"),
            ));
        }
        let size = u64::from(reader.fixed32("footer")?);
        reader.bytes(16, "footer")?;
        if reader.fixed64("footer")? != 0 {
            return Err(Error::unsupported(
                "a later feature, marked in the footer's reserved bytes",
            ));
        }
        let start = offset.checked_sub(size + BLOCK_TRAILER_LENGTH as u64).ok_or_else(|| {
            Error::corruption("footer", 13, "a metaindex in the file", format!("{size} bytes"))
        })?;
        let metaindex = BlockHandle { offset: start, size };
        Ok(Self { format_version, checksum_type, base_context, metaindex, index: None })
    }

    /// Returns the bytes of the footer at `offset` of its file.
    ///
    /// From version 6 on, the metaindex block must contain the handle of the index, and the trailer
    /// of the metaindex block must end at `offset`.
    ///
    /// # Errors
    /// Unsupported, for an unsupported format version or a metaindex of 4 GiB or more; corruption,
    /// if an index handle or base context checksum that the version requires is missing, if one
    /// that the version disallows is present, or if the metaindex does not end at `offset`.
    pub fn encode(&self, offset: u64) -> Result<[u8; FOOTER_LENGTH]> {
        let version = self.format_version;
        if !(MIN_FORMAT_VERSION..=MAX_FORMAT_VERSION).contains(&version) {
            return Err(Error::unsupported(format!("writing format_version {version}")));
        }
        let checked = version >= 6;
        if checked != (self.base_context != 0) || checked == self.index.is_some() {
            let expected = format!("the fields of format_version {version}");
            return Err(Error::corruption("footer to encode", 1, expected, format!("{self:?}")));
        }
        let mut bytes = vec![self.checksum_type as u8];
        if checked {
            if self.metaindex.end() != offset {
                let expected = "a metaindex directly before it";
                let found = format!("{:?}", self.metaindex);
                return Err(Error::corruption("footer to encode", 13, expected, found));
            }
            let size = u32::try_from(self.metaindex.size)
                .map_err(|_| Error::unsupported("a metaindex of 4 GiB or more"))?;
            bytes.extend_from_slice(&EXTENDED_MAGIC);
            bytes.extend_from_slice(&[0; 4]);
            bytes.extend_from_slice(&self.base_context.to_le_bytes());
            bytes.extend_from_slice(&size.to_le_bytes());
        } else {
            self.metaindex.encode(&mut bytes);
            self.index.unwrap_or_default().encode(&mut bytes);
        }
        bytes.resize(VERSION_AT, 0);
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(&BLOCK_BASED_MAGIC.to_le_bytes());
        let mut footer = [0; FOOTER_LENGTH];
        footer.copy_from_slice(&bytes);
        if checked {
            let checksum = footer_checksum(self.checksum_type, footer, self.base_context, offset);
            put_checksum(&mut footer, checksum);
        }
        Ok(footer)
    }

    /// Returns the checksum parameters of this table's blocks.
    #[inline]
    pub fn block_checksum(&self) -> BlockChecksum {
        BlockChecksum { checksum_type: self.checksum_type, base_context: self.base_context }
    }
}

/// Returns the checksum of a footer at `offset` of its file. The checksum field counts as zeros.
fn footer_checksum(
    checksum_type: ChecksumType,
    mut footer: [u8; FOOTER_LENGTH],
    base_context: u32,
    offset: u64,
) -> u32 {
    put_checksum(&mut footer, 0);
    checksum_type.compute(&footer).wrapping_add(context_modifier(base_context, offset))
}

fn put_checksum(footer: &mut [u8; FOOTER_LENGTH], checksum: u32) {
    if let Some(place) = footer.get_mut(CHECKSUM_AT..CHECKSUM_AT + 4) {
        place.copy_from_slice(&checksum.to_le_bytes());
    }
}

#[cold]
fn not_a_table(found: String) -> Error {
    Error::corruption("footer", 0, "an SST", found)
}
