//! The record log: the format of write-ahead logs and MANIFESTs.
//!
//! A log is divided into blocks of 32 KiB. A record is stored in one fragment, or in several if it
//! crosses the end of a block:
//!
//! ```text
//! block    := fragment*, trailer          the trailer is zeros, shorter than a header
//! fragment := crc: fixed32                masked CRC32C of everything after the length
//!             length: fixed16             of the payload
//!             type: u8
//!             [log number: fixed32]       recyclable types only: the low half of the log's number
//!             payload
//! ```
//!
//! | type | meaning |
//! |---|---|
//! | 0 | with length 0: space that was never written; the rest of its block is skipped |
//! | 1, 2, 3, 4 | a whole record; the first, a middle, the last fragment of one |
//! | 5, 6, 7, 8 | the same with a log number, which distinguishes earlier uses of the file |
//! | 9 | the records after it are compressed; fixed32 compression type |
//! | 10, 11 | timestamp sizes: (fixed32 column family, fixed16 size)*; 11 is recyclable |
//! | 130, 131 | the previous log: fixed64 number, size, last sequence; 131 is recyclable |
//! | others | ignored if bit 7 is set and the checksum matches; otherwise damage |
//!
//! In a compressed log every record is one zstd frame with a checksum, split into fragments;
//! records of types 9, 10, 11, 130 and 131 are never compressed. Source: `db/log_format.h`,
//! `db/log_reader.cc`, `db/log_writer.cc`.

mod block;
mod event;
mod reader;
mod recovery;
mod stream;
mod trace;
mod writer;

use crate::key::Sequence;
use crate::varint::{Reader, put_fixed64};
use crate::{Error, Result};

pub use block::{BlockSource, SliceSource};
pub use event::{
    Damage, DamageReason, Event, Record, Skipped, SkippedReason, Stale, TimestampSizes, Torn,
    TornReason,
};
pub use reader::RecordReader;
pub use recovery::{RecoveryMode, Verdict};
pub use trace::records_within;
pub use writer::Writer;

/// The length of a block, in bytes. Fragments do not cross from one block into the next.
pub const BLOCK_LENGTH: usize = 32 * 1024;

/// The length of a fragment's header without a log number, in bytes.
pub const HEADER_LENGTH: usize = 7;

/// The length of a fragment's header with a log number, in bytes.
pub const RECYCLABLE_HEADER_LENGTH: usize = 11;

/// Type of padding records, which fill a log up to a boundary and which readers ignore.
///
/// Not every ignorable type is suitable: RocksDB 11.8 uses 132 to 137 inside its reader, and treats
/// a record of type 132 as the end of the log.
pub const PADDING_TYPE: u8 = 254;

/// The number that denotes zstd in the record that states a log's compression. Logs support no
/// other algorithm.
pub const ZSTD: u32 = 7;

/// Types of fragments; see the table above.
mod fragment_type {
    pub(super) const ZERO: u8 = 0;
    pub(super) const FULL: u8 = 1;
    pub(super) const FIRST: u8 = 2;
    pub(super) const MIDDLE: u8 = 3;
    pub(super) const LAST: u8 = 4;
    pub(super) const RECYCLABLE_FULL: u8 = 5;
    pub(super) const RECYCLABLE_FIRST: u8 = 6;
    pub(super) const RECYCLABLE_MIDDLE: u8 = 7;
    pub(super) const RECYCLABLE_LAST: u8 = 8;
    pub(super) const SET_COMPRESSION: u8 = 9;
    pub(super) const TIMESTAMP_SIZES: u8 = 10;
    pub(super) const RECYCLABLE_TIMESTAMP_SIZES: u8 = 11;
    pub(super) const PREDECESSOR: u8 = 130;
    pub(super) const RECYCLABLE_PREDECESSOR: u8 = 131;
    /// Bit set in types that a reader may ignore if it does not know them.
    pub(super) const IGNORABLE: u8 = 0x80;

    /// Returns whether fragments of this type carry a log number.
    pub(super) fn is_recyclable(kind: u8) -> bool {
        matches!(
            kind,
            RECYCLABLE_FULL..=RECYCLABLE_LAST | RECYCLABLE_TIMESTAMP_SIZES | RECYCLABLE_PREDECESSOR
        )
    }

    /// Returns whether fragments of this type are not compressed in a compressed log.
    pub(super) fn is_never_compressed(kind: u8) -> bool {
        matches!(
            kind,
            SET_COMPRESSION
                | TIMESTAMP_SIZES
                | RECYCLABLE_TIMESTAMP_SIZES
                | PREDECESSOR
                | RECYCLABLE_PREDECESSOR
        )
    }
}

/// The record in which a log describes its predecessor. `track_and_verify_wals` uses it to detect
/// that the predecessor is missing or truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PredecessorWal {
    /// The number of the preceding log.
    pub log_number: u64,
    /// The length of the preceding log, in bytes.
    pub size: u64,
    /// Sequence number of the predecessor's last batch; 0 if it contained no batch.
    pub last_sequence: Sequence,
}

impl PredecessorWal {
    /// Length of the encoding of a [`PredecessorWal`], in bytes.
    const LENGTH: usize = 24;

    fn decode(payload: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        Ok(Self {
            log_number: reader.fixed64("predecessor log number")?,
            size: reader.fixed64("predecessor log size")?,
            last_sequence: reader.fixed64("predecessor log sequence")?,
        })
    }

    fn encode(self, out: &mut Vec<u8>) {
        put_fixed64(out, self.log_number);
        put_fixed64(out, self.size);
        put_fixed64(out, self.last_sequence);
    }
}

/// Masks a checksum so that it can be stored with the bytes it covers: a CRC of bytes that contain
/// their own CRC is a constant.
fn mask_crc(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cold]
fn compression_failed(code: usize) -> Error {
    let name = zstd::zstd_safe::get_error_name(code);
    Error::unsupported(format!("compressing this log record: {name}"))
}
