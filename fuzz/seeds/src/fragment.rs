//! The fragments of a record log: their locations, and their framing with a valid checksum.

use std::ops::Range;

use tailwater_format::checksum::{crc32c, mask_crc32c};
use tailwater_format::log::{BLOCK_LENGTH, HEADER_LENGTH, RECYCLABLE_HEADER_LENGTH};

/// A fragment in a log.
#[derive(Debug, Clone)]
pub struct Fragment {
    /// The fragment's type.
    pub kind: u8,
    /// Range of the fragment in the log: header and payload.
    pub place: Range<usize>,
    /// Range of the payload in the log.
    pub payload: Range<usize>,
}

fn is_recyclable(kind: u8) -> bool {
    matches!(kind, 5..=8 | 11 | 131)
}

/// Returns the fragments of a log. They are located by the lengths in their headers alone; in each
/// block, the fragments before the first one that does not fit into the block.
pub fn fragments(log: &[u8]) -> Vec<Fragment> {
    let mut fragments = Vec::new();
    for (number, block) in log.chunks(BLOCK_LENGTH).enumerate() {
        let (base, mut at) = (number * BLOCK_LENGTH, 0);
        while let Some(header) = block.get(at..at + HEADER_LENGTH) {
            let kind = header[6];
            let header_length =
                if is_recyclable(kind) { RECYCLABLE_HEADER_LENGTH } else { HEADER_LENGTH };
            let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
            let (start, end) = (at + header_length, at + header_length + length);
            if end > block.len() || (kind, length) == (0, 0) {
                break;
            }
            let place = base + at..base + end;
            fragments.push(Fragment { kind, place, payload: base + start..base + end });
            at = end;
        }
    }
    fragments
}

/// Appends a fragment of this type. `log_number` is written only if the type has one.
pub fn put_fragment(log: &mut Vec<u8>, kind: u8, log_number: u32, payload: &[u8]) {
    let start = log.len();
    log.extend_from_slice(&[0; 4]);
    log.extend_from_slice(&(payload.len() as u16).to_le_bytes());
    log.push(kind);
    if is_recyclable(kind) {
        log.extend_from_slice(&log_number.to_le_bytes());
    }
    log.extend_from_slice(payload);
    write_crc(&mut log[start..]);
}

/// Writes the checksum of a fragment's bytes into it; a fragment shorter than a header is left
/// unchanged.
pub fn write_crc(fragment: &mut [u8]) {
    if let Some((header, covered)) = fragment.split_at_mut_checked(6) {
        header[..4].copy_from_slice(&mask_crc32c(crc32c(covered)).to_le_bytes());
    }
}
