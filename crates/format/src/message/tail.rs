//! A chunk of a partition's tail in shared memory: batches that outlive the process that accepted
//! them and may not yet be in the segment.
//!
//! ```text
//! chunk  := header: one block, batches and gaps as in the segment
//! header := magic: u64                 zero once the whole chunk is in the segment
//!           log: u128                  id of the log
//!           stream, topic, partition: u32
//!           first batch: u32           where it begins, in bytes after the header
//!           incarnation: u64           of the partition
//!           base offset, base timestamp: u64     of the segment, as in its name
//!           position: u64              in the segment, of the first byte after the header
//!           checksum: u64              XXH3 of the fields before
//! ```
//!
//! A chunk has no length field: it ends at the first bytes that are neither a gap nor a batch with
//! valid checksums. The rest of the region is zero.

use xxhash_rust::xxh3::xxh3_64;

use super::{field, put, u32_at, u64_at};
use crate::{Error, Result};

/// Length of the header, in bytes.
pub const HEADER_BYTES: usize = 4096;

/// "TWTAIL01", as a number.
const MAGIC: u64 = u64::from_le_bytes(*b"TWTAIL01");
const CHECKSUM_AT: usize = 72;

/// The header of a chunk: the partition of its batches, and their position in the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Id of the log.
    pub log: u128,
    /// Id of the stream.
    pub stream: u32,
    /// Id of the topic.
    pub topic: u32,
    /// Id of the partition.
    pub partition: u32,
    /// Incarnation of the partition.
    pub incarnation: u64,
    /// Base offset of the segment.
    pub base_offset: u64,
    /// Lower bound on the segment's timestamps, in microseconds since 1970.
    pub base_timestamp_us: u64,
    /// Position in the segment of the chunk's first byte after the header, in bytes.
    pub position: u64,
    /// Offset of the first whole batch, in bytes from the end of the header.
    pub first_batch: u32,
}

impl ChunkHeader {
    /// Returns the encoded header; the rest of its block is zero.
    pub fn encode(&self) -> [u8; CHECKSUM_AT + 8] {
        let mut bytes = [0; CHECKSUM_AT + 8];
        put(&mut bytes, 0, &MAGIC.to_le_bytes());
        put(&mut bytes, 8, &self.log.to_le_bytes());
        put(&mut bytes, 24, &self.stream.to_le_bytes());
        put(&mut bytes, 28, &self.topic.to_le_bytes());
        put(&mut bytes, 32, &self.partition.to_le_bytes());
        put(&mut bytes, 36, &self.first_batch.to_le_bytes());
        put(&mut bytes, 40, &self.incarnation.to_le_bytes());
        put(&mut bytes, 48, &self.base_offset.to_le_bytes());
        put(&mut bytes, 56, &self.base_timestamp_us.to_le_bytes());
        put(&mut bytes, 64, &self.position.to_le_bytes());
        let checksum = checksum(&bytes);
        put(&mut bytes, CHECKSUM_AT, &checksum.to_le_bytes());
        bytes
    }

    /// Reads the header at the start of a chunk. Returns `None` if the magic number is zero, which
    /// means that the whole chunk is already in the segment.
    ///
    /// # Errors
    /// Corruption, if the magic number or the checksum is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>> {
        const WHAT: &str = "tail chunk";
        match u64_at(bytes, 0, WHAT)? {
            0 => return Ok(None),
            MAGIC => {}
            found => {
                let found = format!("{found:016x}");
                return Err(Error::corruption(WHAT, 0, "a tail chunk's magic number", found));
            }
        }
        let stored = u64_at(bytes, CHECKSUM_AT, WHAT)?;
        let computed = checksum(bytes);
        if stored != computed {
            let expected = format!("checksum {computed:016x}");
            return Err(Error::corruption(WHAT, CHECKSUM_AT, expected, format!("{stored:016x}")));
        }
        Ok(Some(Self {
            log: u128::from_le_bytes(field(bytes, 8, WHAT)?),
            stream: u32_at(bytes, 24, WHAT)?,
            topic: u32_at(bytes, 28, WHAT)?,
            partition: u32_at(bytes, 32, WHAT)?,
            incarnation: u64_at(bytes, 40, WHAT)?,
            base_offset: u64_at(bytes, 48, WHAT)?,
            base_timestamp_us: u64_at(bytes, 56, WHAT)?,
            position: u64_at(bytes, 64, WHAT)?,
            first_batch: u32_at(bytes, 36, WHAT)?,
        }))
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes.get(..CHECKSUM_AT).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_back_and_damage_is_noticed() {
        let header = ChunkHeader {
            log: 7 << 100,
            stream: 1,
            topic: 2,
            partition: 3,
            incarnation: 4,
            base_offset: 5,
            base_timestamp_us: 6,
            position: 8192,
            first_batch: 7,
        };
        let bytes = header.encode();
        assert_eq!(ChunkHeader::decode(&bytes), Ok(Some(header)));
        assert_eq!(ChunkHeader::decode(&[0; HEADER_BYTES]), Ok(None));
        for at in 0..bytes.len() {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert!(ChunkHeader::decode(&damaged).is_err(), "byte {at}");
            assert!(ChunkHeader::decode(&bytes[..at]).is_err(), "{at} bytes");
        }
    }
}
