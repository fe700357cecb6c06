//! The property `rocksdb.seqno.time.map`: samples of the write times of sequence numbers.
//!
//! ```text
//! map  := (nothing) | count: varint64, pair{count}
//! pair := sequence: varint64, time: varint64
//! ```
//!
//! Both numbers of a pair are differences from the previous pair; those of the first pair are
//! differences from zero. Sequence numbers and times ascend strictly. A map without pairs is empty.
//! Source: `db/seqno_to_time_mapping.{h,cc}`.

use crate::key::Sequence;
use crate::varint::{Reader, put_varint64};
use crate::{Error, Result};

const WHAT: &str = "sequence number to time mapping";
/// Maximum number of pairs for which memory is reserved before any has been read.
const MAX_ROOM: u64 = 1024;

/// A sample: every sequence number up to and including `sequence` was written at `time_s` or
/// earlier, and every higher one at `time_s` or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceTime {
    /// The last sequence number that had been written at the time of the sample.
    pub sequence: Sequence,
    /// The time of the sample, in seconds since 1970.
    pub time_s: u64,
}

/// Appends the encoding of samples to `out`. The samples must be in ascending order.
pub fn encode(samples: &[SequenceTime], out: &mut Vec<u8>) {
    if samples.is_empty() {
        return;
    }
    put_varint64(out, samples.len() as u64);
    let mut before = SequenceTime { sequence: 0, time_s: 0 };
    for &sample in samples {
        // Values that do not ascend wrap around here, and wrap back when RocksDB decodes them.
        put_varint64(out, sample.sequence.wrapping_sub(before.sequence));
        put_varint64(out, sample.time_s.wrapping_sub(before.time_s));
        before = sample;
    }
}

/// Decodes samples and returns them in the order in which they are encoded.
///
/// # Errors
/// Corruption, for bytes that end before the last pair or continue after it, and for numbers beyond
/// 64 bits.
pub fn decode(bytes: &[u8]) -> Result<Vec<SequenceTime>> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let mut reader = Reader::new(bytes);
    let count = reader.varint64(WHAT)?;
    let mut samples = Vec::with_capacity(count.min(MAX_ROOM) as usize);
    let mut before = SequenceTime { sequence: 0, time_s: 0 };
    for _ in 0..count {
        let offset = reader.offset();
        let (sequence, time_s) = (reader.varint64(WHAT)?, reader.varint64(WHAT)?);
        let sequence = before.sequence.checked_add(sequence);
        let (Some(sequence), Some(time_s)) = (sequence, before.time_s.checked_add(time_s)) else {
            return Err(Error::corruption(WHAT, offset, "64-bit numbers", "larger ones"));
        };
        before = SequenceTime { sequence, time_s };
        samples.push(before);
    }
    if !reader.is_empty() {
        let found = format!("{} bytes more", reader.remaining().len());
        return Err(Error::corruption(WHAT, reader.offset(), "the end", found));
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(pairs: &[(u64, u64)]) -> Vec<SequenceTime> {
        pairs.iter().map(|&(sequence, time_s)| SequenceTime { sequence, time_s }).collect()
    }

    #[test]
    fn samples_are_written_as_differences() {
        for (pairs, bytes) in [
            (&[][..], &[][..]),
            (&[(10, 500)], &[1, 10, 0xf4, 3]),
            (&[(10, 500), (20, 600), (1020, 601)], &[3, 10, 0xf4, 3, 10, 100, 0xe8, 7, 1]),
        ] {
            let samples = samples(pairs);
            let mut encoded = Vec::new();
            encode(&samples, &mut encoded);
            assert_eq!(encoded, bytes);
            assert_eq!(decode(bytes), Ok(samples));
        }
    }

    #[test]
    fn damage_is_reported() {
        let mut encoded = Vec::new();
        encode(&samples(&[(10, 500), (20, 600)]), &mut encoded);
        for end in 1..encoded.len() {
            assert!(decode(&encoded[..end]).is_err(), "{end} bytes");
        }
        encoded.push(0);
        assert!(matches!(decode(&encoded), Err(Error::Corruption { offset: 6, .. })));
        let mut beyond = vec![2, 1, 1];
        put_varint64(&mut beyond, u64::MAX);
        beyond.push(1);
        assert!(matches!(decode(&beyond), Err(Error::Corruption { offset: 3, .. })));
        assert!(decode(&[0xff; 10]).is_err());
    }
}
