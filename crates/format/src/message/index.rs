//! The index of a segment: the positions of some of its batches.
//!
//! ```text
//! index := entry*
//! entry := offset: u64                 of the batch's first message
//!          timestamp: u64              when the log accepted the batch, in us since 1970
//!          position: u64               of the batch in the segment, in bytes
//!          checksum: u64               XXH3 of the fields before, seeded with the segment
//! ```
//!
//! From entry to entry, offsets and positions increase, and timestamps do not decrease. The index
//! ends at the first bytes that are not a valid entry of its segment. The segment is authoritative:
//! if it contradicts an entry, the index is discarded and rebuilt.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::batch::Header;
use super::{put, u64_at};

/// Length of an entry, in bytes.
pub const ENTRY_BYTES: usize = 32;

/// One batch in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Offset of the batch's first message.
    pub offset: u64,
    /// When the log accepted the batch, in microseconds since 1970.
    pub timestamp_us: u64,
    /// Position of the batch in the segment, in bytes.
    pub position: u64,
}

/// Seed of the checksums in one segment's index, so that entries of other segments are not valid in
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// Returns the seed for the segment with this base offset in this incarnation of its partition.
    /// A purge of the partition gives it a new incarnation.
    pub fn new(base_offset: u64, incarnation: u64) -> Self {
        Self(base_offset ^ incarnation.rotate_left(32))
    }
}

impl Entry {
    /// Returns the entry of the batch with this header, which is at `position` in the segment.
    pub fn new(header: &Header, position: u64) -> Self {
        Self { offset: header.base_offset, timestamp_us: header.base_timestamp_us, position }
    }

    /// Returns the entry's bytes.
    pub fn encode(&self, seed: Seed) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        put(&mut bytes, 0, &self.offset.to_le_bytes());
        put(&mut bytes, 8, &self.timestamp_us.to_le_bytes());
        put(&mut bytes, 16, &self.position.to_le_bytes());
        let checksum = checksum(&bytes, seed);
        put(&mut bytes, 24, &checksum.to_le_bytes());
        bytes
    }

    /// Returns the entry at the start of `bytes`; `None` if they are not a valid entry of the
    /// segment with this seed.
    pub fn decode(bytes: &[u8], seed: Seed) -> Option<Self> {
        let bytes: &[u8; ENTRY_BYTES] = bytes.first_chunk()?;
        let value = |at: usize| u64_at(bytes, at, "index entry").ok();
        if value(24)? != checksum(bytes, seed) {
            return None;
        }
        Some(Self { offset: value(0)?, timestamp_us: value(8)?, position: value(16)? })
    }
}

fn checksum(bytes: &[u8; ENTRY_BYTES], seed: Seed) -> u64 {
    xxh3_64_with_seed(bytes.get(..24).unwrap_or_default(), seed.0)
}

/// Returns the entries at the start of an index, up to the first entry that is damaged or not in
/// order.
pub fn decode(bytes: &[u8], seed: Seed) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for bytes in bytes.chunks_exact(ENTRY_BYTES) {
        let Some(entry) = Entry::decode(bytes, seed) else { break };
        let ascends = entries.last().is_none_or(|last| {
            last.offset < entry.offset
                && last.position < entry.position
                && last.timestamp_us <= entry.timestamp_us
        });
        if !ascends {
            break;
        }
        entries.push(entry);
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64) -> Entry {
        Entry { offset: number * 10, timestamp_us: number / 2, position: number * 4096 }
    }

    #[test]
    fn decoding_an_index_stops_at_damage_or_another_segments_entry() {
        let seed = Seed::new(0, 3);
        let mut bytes: Vec<u8> = (0..4).flat_map(|number| entry(number).encode(seed)).collect();
        bytes.extend_from_slice(&entry(4).encode(Seed::new(0, 4)));
        assert_eq!(decode(&bytes, seed), (0..4).map(entry).collect::<Vec<_>>());
        for at in 0..4 * ENTRY_BYTES {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert_eq!(decode(&damaged, seed).len(), at / ENTRY_BYTES, "byte {at}");
        }
    }

    #[test]
    fn decoding_stops_at_entries_out_of_order() {
        let seed = Seed::new(5, 1);
        let bytes: Vec<u8> = [1, 2, 2, 3].iter().flat_map(|&n| entry(n).encode(seed)).collect();
        assert_eq!(decode(&bytes, seed).len(), 2);
    }
}
