//! The fragments of a record log: finds them in a log, and writes them with valid checksums.

use std::ops::Range;

use tailwater_format::checksum::{crc32c, mask_crc32c};
use tailwater_format::record_log::{BLOCK_LENGTH, HEADER_LENGTH, RECYCLABLE_HEADER_LENGTH};

/// The location of a fragment in a log.
#[derive(Debug, Clone)]
pub struct Fragment {
    /// The fragment's type.
    pub kind: u8,
    /// Byte range of the fragment in the log, including its header.
    pub place: Range<usize>,
    /// Byte range of the payload in the log.
    pub payload: Range<usize>,
}

fn is_recyclable(kind: u8) -> bool {
    matches!(kind, 5..=8 | 11 | 131)
}

/// Returns the fragments of a log. Only the lengths in their headers are used to find them;
/// checksums are not verified. In each block, the search ends at the first fragment that does not
/// fit into the block.
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

/// Appends a fragment with a valid checksum. `log_number` is written only if the header of this
/// type of fragment contains it.
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

/// Writes the correct checksum into the header of a fragment. If `fragment` is shorter than the
/// start of a header, changes nothing.
pub fn write_crc(fragment: &mut [u8]) {
    if let Some((header, covered)) = fragment.split_at_mut_checked(6) {
        header[..4].copy_from_slice(&mask_crc32c(crc32c(covered)).to_le_bytes());
    }
}
