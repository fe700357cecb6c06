//! Events of a log reader: a record, or anything else that the reader finds in a log.

use std::fmt;

use super::PredecessorWal;
use crate::varint::Reader;

/// An event of a log reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A whole record.
    Record(Record<'a>),
    /// The sizes of the user-defined timestamps in the records after this event.
    TimestampSizes(TimestampSizes<'a>),
    /// The record in which a log describes the log before it.
    Predecessor(PredecessorWal),
    /// Bytes that contradict the format. The reader continues after them.
    Damage(Damage),
    /// Bytes that RocksDB skips silently in every recovery mode.
    Skipped(Skipped),
    /// A whole fragment left over from an earlier use of this file. The log ends before this
    /// fragment.
    Stale(Stale),
    /// The log ends inside an incomplete record or header. The next event is [`Event::End`].
    Torn(Torn),
    /// The log ends.
    End,
}

/// A whole record and its location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The logged bytes, assembled and decompressed.
    pub payload: &'a [u8],
    /// Offset of the record's first header, in bytes from the start of the log.
    pub start: u64,
    /// Offset of the first byte after the record, in bytes from the start of the log.
    pub end: u64,
    /// Number of fragments of the record; more than one if the record crosses a block boundary.
    pub fragments: u32,
    /// Whether the record's last fragment carries the log's number.
    pub recyclable: bool,
}

/// The sizes of the user-defined timestamps of column families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampSizes<'a> {
    payload: &'a [u8],
}

impl<'a> TimestampSizes<'a> {
    const ENTRY_LENGTH: usize = 6;

    /// Returns the sizes in the payload; `None` if the payload is incomplete or a size is 0,
    /// because a size of 0 is never recorded.
    pub(super) fn decode(payload: &'a [u8]) -> Option<Self> {
        let sizes = Self { payload };
        let whole = payload.len().is_multiple_of(Self::ENTRY_LENGTH);
        (whole && sizes.iter().all(|(_, size)| size > 0)).then_some(sizes)
    }

    /// Returns the ids of the column families, each with the size of its timestamps in bytes.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u16)> + 'a {
        self.payload.chunks_exact(Self::ENTRY_LENGTH).filter_map(|entry| {
            let mut reader = Reader::new(entry);
            let family = reader.fixed32("column family id").ok()?;
            Some((family, reader.fixed16("timestamp size").ok()?))
        })
    }
}

/// Bytes that contradict the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Offset at which the damage was detected, in bytes from the start of the log.
    pub offset: u64,
    /// Number of bytes dropped because of the damage, including those of an unfinished record
    /// before it.
    pub dropped: u64,
    /// Whether the log contains recyclable fragments. If so, the damaged bytes may be left over
    /// from an earlier use of the file.
    pub recycled: bool,
    /// Whether the damaged bytes belong to the log that is being read, and not to an earlier log in
    /// the same file. Always true if `recycled` is false. Otherwise true in these cases:
    ///
    /// - The bytes begin with a header that carries this log's number.
    /// - The bytes are a fragment of this log with one flipped bit in its header.
    /// - The bytes are a whole fragment.
    /// - The bytes interrupt a record of this log.
    /// - `followed` is true.
    pub own: bool,
    /// Whether the log is recycled and the dropped bytes contain an intact fragment of this log
    /// after the damage. If so, the log does not end here.
    pub followed: bool,
    /// What is wrong with the damaged bytes.
    pub reason: DamageReason,
}

impl Damage {
    /// Whether the log may end before these bytes: it is recycled, no intact fragment of it
    /// follows, and the bytes may be the remains of an earlier log in the same file or of a write
    /// that a crash cut off.
    pub fn may_end_log(&self) -> bool {
        let reasons = matches!(
            self.reason,
            DamageReason::Checksum { .. } | DamageReason::Length { .. } | DamageReason::Zeros
        );
        self.recycled && !self.followed && reasons
    }
}

/// The problem with damaged bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageReason {
    /// A fragment's checksum does not match; the rest of its block is dropped, since its length may
    /// be wrong.
    Checksum {
        /// The checksum in the header, unmasked.
        expected: u32,
        /// The checksum computed from the fragment's bytes.
        found: u32,
    },
    /// A fragment's length reaches beyond the end of its block.
    Length {
        /// Length of the payload according to the fragment's header, in bytes.
        stated: u16,
    },
    /// A fragment of an unknown type that readers must not ignore.
    UnknownType(u8),
    /// A middle or last fragment that no first fragment precedes.
    MissingStart,
    /// A first fragment that another record follows, without a last fragment between them.
    MissingEnd,
    /// Space that was never written, inside a record.
    Zeros,
    /// A fragment that does not decompress, inside a record.
    Decompression,
    /// A record of this type begins before the previous record is complete.
    Interrupted(u8),
    /// A recyclable fragment in a log whose first record is not recyclable.
    UnexpectedRecyclable,
    /// A second record that states the log's compression.
    CompressionRepeated,
    /// A record that states the log's compression, after other records.
    CompressionNotFirst,
    /// A compression type that logs do not support. It is 0 if the record is too short to contain a
    /// type.
    CompressionUnsupported(u32),
    /// A record that describes the predecessor log, but is too short.
    PredecessorMalformed,
    /// A record of timestamp sizes that is incomplete, or has a size of 0.
    TimestampSizesMalformed,
}

impl fmt::Display for DamageReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum { expected, found } => {
                write!(f, "checksum mismatch: expected {expected:#010x}, found {found:#010x}")
            }
            Self::Length { stated } => {
                write!(f, "a fragment of {stated} bytes goes past the end of its block")
            }
            Self::UnknownType(kind) => write!(f, "unknown record type {kind}"),
            Self::MissingStart => f.write_str("a record without its first fragment"),
            Self::MissingEnd => f.write_str("a record without its last fragment"),
            Self::Zeros => f.write_str("unwritten space inside a record"),
            Self::Decompression => f.write_str("a fragment that does not decompress"),
            Self::Interrupted(kind) => write!(f, "a record of type {kind} inside another"),
            Self::UnexpectedRecyclable => {
                f.write_str("a recyclable record in a log that began without one")
            }
            Self::CompressionRepeated => f.write_str("compression is stated twice"),
            Self::CompressionNotFirst => f.write_str("compression is stated after other records"),
            Self::CompressionUnsupported(kind) => {
                write!(
                    f,
                    "compression type {kind} in a log; only zstd ({}) is supported",
                    super::ZSTD
                )
            }
            Self::PredecessorMalformed => f.write_str("a malformed record about the previous log"),
            Self::TimestampSizesMalformed => f.write_str("a malformed record of timestamp sizes"),
        }
    }
}

/// Bytes that the reader skips. RocksDB treats them as an error in no recovery mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skipped {
    /// Offset of the skipped bytes, in bytes from the start of the log.
    pub offset: u64,
    /// Number of bytes dropped: the skipped bytes, and the bytes of an unfinished record before
    /// them.
    pub dropped: u64,
    /// Whether a record may be lost with the skipped bytes. This depends on the reason:
    ///
    /// - Zeros: true if the rest of the block contains a nonzero byte or, in a recycled log, an
    ///   intact fragment of this log.
    /// - An ignorable record: true if it interrupts another record.
    /// - A fragment that does not decompress: always true.
    pub lossy: bool,
    /// Why the reader skips the bytes.
    pub reason: SkippedReason,
}

/// Why a reader skips bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkippedReason {
    /// Space that was allocated and never written, up to the end of its block.
    Zeros,
    /// A record of an unknown type that may be ignored, such as [`super::PADDING_TYPE`]. If it
    /// interrupts a fragmented record, that record is dropped as well.
    Ignorable(u8),
    /// A fragment that does not decompress although its checksum is right; the rest of its block is
    /// dropped.
    Decompression,
}

impl fmt::Display for SkippedReason {
    /// Describes the loss. The text is correct only if [`Skipped::lossy`] is true.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zeros => f.write_str("unwritten space before written data"),
            Self::Ignorable(kind) => write!(f, "a record of type {kind} inside another"),
            Self::Decompression => f.write_str("a fragment that does not decompress"),
        }
    }
}

/// A whole fragment that carries the number of another log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale {
    /// Offset of the fragment, in bytes from the start of the log.
    pub offset: u64,
    /// Number of dropped bytes: those of an unfinished record before the fragment.
    pub dropped: u64,
    /// Whether the fragment interrupts a record, which is then incomplete.
    pub in_record: bool,
    /// Whether the fragment's log number is lower than this log's number, so that an earlier log
    /// left it in the file.
    pub is_older: bool,
}

/// The premature end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torn {
    /// Offset at which the incomplete structure begins or, for [`TornReason::Record`], at which the
    /// log ends, in bytes from the start of the log.
    pub offset: u64,
    /// Number of bytes dropped: those of the incomplete header, padding, payload or record, and
    /// those of an unfinished record before it.
    pub dropped: u64,
    /// Whether the bytes of the incomplete structure belong to this log, in the sense of
    /// [`Damage::own`].
    pub own: bool,
    /// The structure that the log ends inside.
    pub reason: TornReason,
}

/// The structure that a log ends inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TornReason {
    /// The log ends inside a fragment's header.
    Header,
    /// The rest of the log is zeros and shorter than a header: space that was allocated and never
    /// written.
    ZeroPadding,
    /// A fragment's payload.
    Payload,
    /// A record whose last fragment is missing. At least one earlier fragment of it is whole.
    Record,
    /// A write that only partly reached the disk. The reader itself reports damage there. The
    /// replay of write-ahead logs recognises such a write by the zeros in its place, and reports
    /// this reason instead of the damage.
    Unwritten,
}

impl fmt::Display for TornReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "the log ends inside a header",
            Self::ZeroPadding => "the log ends in too few zeros for a header",
            Self::Payload => "the log ends inside a fragment",
            Self::Record => "the log ends inside a record",
            Self::Unwritten => "a part of the last write never reached the disk",
        })
    }
}
