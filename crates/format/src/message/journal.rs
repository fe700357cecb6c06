//! A journal: records that are appended one after the other.
//!
//! ```text
//! journal := record*
//! record  := length: u32               of the payload, in bytes
//!            checksum: u32             masked CRC32C of number and payload
//!            number: u64               that of the previous record plus 1
//!            payload
//! ```
//!
//! A crash may truncate or tear the last records. The journal ends at the first bytes that are not
//! a record with the next number; [`Reader::has_record_behind`] reports whether the journal is
//! damaged there.

use super::{u32_at, u64_at};
use crate::checksum::{crc32c, crc32c_extend, mask_crc32c};
use crate::{Error, Result};

/// Length of a record's header, in bytes.
pub const HEADER_BYTES: usize = 16;

/// Appends a record to `out`.
///
/// # Errors
/// Unsupported, for a payload of 4 GiB or more.
pub fn put_record(out: &mut Vec<u8>, number: u64, payload: &[u8]) -> Result<()> {
    let length = u32::try_from(payload.len())
        .map_err(|_| Error::unsupported(format!("a record of {} bytes", payload.len())))?;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&checksum(number, payload).to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(payload);
    Ok(())
}

fn checksum(number: u64, payload: &[u8]) -> u32 {
    mask_crc32c(crc32c_extend(crc32c(&number.to_le_bytes()), payload))
}

/// Reads a journal from its first record.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    next_number: Option<u64>,
}

impl<'a> Reader<'a> {
    /// Creates a reader that begins at the start of `bytes`. The first record may have any number;
    /// each later record must have the next number.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, next_number: None }
    }

    /// Returns the offset of the first unread byte, where the next record would begin.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Returns the number that the next record must have; `None` before the first record, which may
    /// have any number.
    pub fn next_number(&self) -> Option<u64> {
        self.next_number
    }

    /// Returns whether a record with a number above [`Self::next_number`] begins anywhere after
    /// [`Self::offset`]. A crash cannot leave such a record. So if there is one, the bytes at
    /// [`Self::offset`] are damaged.
    pub fn has_record_behind(&self) -> bool {
        let lowest = self.next_number.unwrap_or(0);
        (self.at + 1..self.bytes.len()).any(|at| {
            let bytes = self.bytes.get(at..).unwrap_or_default();
            record(bytes).is_ok_and(|(number, payload)| number > lowest && !payload.is_empty())
        })
    }
}

/// Reads the record at the start of `bytes`.
fn record(bytes: &[u8]) -> Result<(u64, &[u8])> {
    const WHAT: &str = "journal record";
    let length = u32_at(bytes, 0, WHAT)? as usize;
    let stored = u32_at(bytes, 4, WHAT)?;
    let number = u64_at(bytes, 8, WHAT)?;
    let payload = bytes
        .get(HEADER_BYTES..HEADER_BYTES + length)
        .ok_or_else(|| Error::truncated(WHAT, bytes.len()))?;
    let computed = checksum(number, payload);
    if stored != computed {
        let expected = format!("checksum {computed:08x}");
        return Err(Error::corruption(WHAT, 4, expected, format!("{stored:08x}")));
    }
    Ok((number, payload))
}

impl<'a> Iterator for Reader<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (number, payload) = record(self.bytes.get(self.at..)?).ok()?;
        if self.next_number.is_some_and(|next| next != number) {
            return None;
        }
        self.at += HEADER_BYTES + payload.len();
        self.next_number = Some(number.wrapping_add(1));
        Some(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        for (number, payload) in [(7, &b"one"[..]), (8, b""), (9, b"three")] {
            put_record(&mut bytes, number, payload).unwrap();
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    #[test]
    fn a_truncated_journal_returns_its_complete_records() {
        let (bytes, ends) = journal();
        for length in 0..=bytes.len() {
            let mut reader = Reader::new(&bytes[..length]);
            let count = reader.by_ref().count();
            assert_eq!(count, ends.iter().filter(|&&end| end <= length).count() - 1);
            assert_eq!(reader.offset(), ends[count]);
            assert!(!reader.has_record_behind());
        }
    }

    #[test]
    fn damage_before_the_last_record_is_distinguished_from_a_torn_end() {
        let (bytes, ends) = journal();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            let mut reader = Reader::new(&damaged);
            let count = reader.by_ref().count();
            let expected = ends.iter().filter(|&&end| end <= at).count() - 1;
            assert_eq!(count, expected, "byte {at}");
            assert_eq!(reader.has_record_behind(), expected < 2, "byte {at}");
        }
    }
}
