//! Timed values. A timed value is a value followed by eight bytes; records of the type
//! [`ValueType::ValuePreferredSequence`] contain one.
//!
//! ```text
//! timed value := value, number: fixed64
//! ```
//!
//! In batches, logs and memtables the number is the time of the write, in seconds since 1970. A
//! flush converts the time to a sequence number. In tables the number is the highest sequence
//! number known to have been written by that time, or 0. It is below the sequence number of the
//! record, and a compaction may later replace the record's sequence number with it. Source:
//! `PackValueAndWriteTime` and `PackValueAndSeqno` in `db/seqno_to_time_mapping.cc`.
//!
//! [`ValueType::ValuePreferredSequence`]: crate::key::ValueType::ValuePreferredSequence

use crate::varint::put_fixed64;

/// Length of the number that follows the value, in bytes.
pub const NUMBER_LENGTH: usize = 8;

/// Splits a timed value into the value and the number that follows the value; `None` if there are
/// too few bytes for the number. The module documentation describes the number.
#[inline]
pub fn split(packed: &[u8]) -> Option<(&[u8], u64)> {
    let (value, number) = packed.split_last_chunk::<NUMBER_LENGTH>()?;
    Some((value, u64::from_le_bytes(*number)))
}

/// Appends a timed value: `value`, followed by `number`. The module documentation describes the
/// number.
pub fn put(out: &mut Vec<u8>, value: &[u8], number: u64) {
    out.reserve(value.len() + NUMBER_LENGTH);
    out.extend_from_slice(value);
    put_fixed64(out, number);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_number_follows_the_value() {
        let mut packed = Vec::new();
        put(&mut packed, b"value", 0x0102);
        assert_eq!(packed, b"value\x02\x01\0\0\0\0\0\0");
        assert_eq!(split(&packed), Some((&b"value"[..], 0x0102)));
        assert_eq!(split(&packed[6..]), None);
    }
}
