//! What a reader finds in a log: records, and everything that is not as a writer left it.

use std::fmt;

use super::PredecessorWal;
use crate::varint::Reader;

/// The next thing in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A whole record.
    Record(Record<'a>),
    /// The sizes of user-defined timestamps, which the records after it rely on.
    TimestampSizes(TimestampSizes<'a>),
    /// What the log says of the one before it.
    Predecessor(PredecessorWal),
    /// Bytes that contradict the format. Reading on goes on after them.
    Damage(Damage),
    /// Bytes that every recovery mode passes over in silence.
    Skipped(Skipped),
    /// A whole fragment that an earlier use of this file left behind: a recycled log ends before
    /// it.
    Stale(Stale),
    /// The log ends before something that was begun in it. The next event is the end.
    Torn(Torn),
    /// The log ends.
    End,
}

/// A whole record and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// What was logged, put together and decompressed.
    pub payload: &'a [u8],
    /// Where the record's first header stands, in bytes from the start of the log.
    pub start: u64,
    /// The first byte after the record.
    pub end: u64,
}

/// The sizes of the user-defined timestamps of column families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampSizes<'a> {
    payload: &'a [u8],
}

impl<'a> TimestampSizes<'a> {
    const ENTRY_LENGTH: usize = 6;

    /// The sizes that the payload holds; `None` if it is not whole or a size is 0, which is never
    /// recorded.
    pub(super) fn decode(payload: &'a [u8]) -> Option<Self> {
        let sizes = Self { payload };
        let whole = payload.len().is_multiple_of(Self::ENTRY_LENGTH);
        (whole && sizes.iter().all(|(_, size)| size > 0)).then_some(sizes)
    }

    /// Column families' ids and the sizes of their timestamps in bytes.
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
    /// Where it was noticed, in bytes from the start of the log.
    pub offset: u64,
    /// How many bytes are dropped for it, those of an unfinished record before it included.
    pub dropped: u64,
    /// Whether the log has recyclable fragments, so that this may be what an earlier use of the
    /// file left behind.
    pub recycled: bool,
    /// Whether a fragment of this log is damaged. Without `recycled` always; with it, if a header
    /// with this log's number stands there, or did before one bit of it changed, or if `followed`.
    pub own: bool,
    /// Whether a whole fragment of this log, which is recycled, is among the bytes that are
    /// dropped, so that the log does not end here.
    pub followed: bool,
    /// What is wrong.
    pub reason: DamageReason,
}

/// What is wrong with damaged bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageReason {
    /// A fragment's checksum is not that of its bytes; the rest of its block is dropped, since its
    /// length may be wrong.
    Checksum {
        /// What the header says, unmasked.
        expected: u32,
        /// What the bytes have.
        found: u32,
    },
    /// A fragment's length goes past the end of its block.
    Length {
        /// The length that the header says, in bytes.
        stated: u16,
    },
    /// A fragment of a type that is neither known nor ignorable.
    UnknownType(u8),
    /// A middle or last fragment without a first one.
    MissingStart,
    /// A first fragment without a last one before the next record.
    MissingEnd,
    /// Space that was never written, inside a record.
    Zeros,
    /// A fragment inside a record that does not decompress.
    Decompression,
    /// A record of this type inside a record.
    Interrupted(u8),
    /// A recyclable fragment in a log that began without one.
    UnexpectedRecyclable,
    /// A second record that says how the log is compressed.
    CompressionRepeated,
    /// A record that says how the log is compressed, after others.
    CompressionNotFirst,
    /// A compression that no log can have; 0 also stands for a record too short to hold one.
    CompressionUnsupported(u32),
    /// A record about the log before that is too short.
    PredecessorMalformed,
    /// A record of timestamp sizes that is not whole, or with a size of 0.
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
                write!(f, "compression type {kind} in a log; only zstd ({}) is", super::ZSTD)
            }
            Self::PredecessorMalformed => f.write_str("a malformed record about the log before"),
            Self::TimestampSizesMalformed => f.write_str("a malformed record of timestamp sizes"),
        }
    }
}

/// Bytes that are passed over in silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skipped {
    /// Where they begin, in bytes from the start of the log.
    pub offset: u64,
    /// How many they are, those of an unfinished record before them included.
    pub dropped: u64,
    /// Whether a fragment may be among them: of zeros, if other bytes follow them in their block,
    /// or in a recycled log a fragment of this log; of other bytes, if they belong to a record.
    pub lossy: bool,
    /// Why they are skipped.
    pub reason: SkippedReason,
}

/// Why bytes are passed over in silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkippedReason {
    /// Space that was allocated and never written, up to the end of its block.
    Zeros,
    /// A record of an unknown type that may be ignored, [`super::PADDING_TYPE`] for one. It ends a
    /// record that was in fragments, which is dropped with it.
    Ignorable(u8),
    /// A fragment that does not decompress although its checksum is right; the rest of its block is
    /// dropped.
    Decompression,
}

impl fmt::Display for SkippedReason {
    /// What is wrong where [`Skipped::lossy`] says that a fragment may be lost.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zeros => f.write_str("unwritten space before what was written"),
            Self::Ignorable(kind) => write!(f, "a record of type {kind} inside another"),
            Self::Decompression => f.write_str("a fragment that does not decompress"),
        }
    }
}

/// A whole fragment with another log's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale {
    /// Where it begins, in bytes from the start of the log.
    pub offset: u64,
    /// How many bytes of an unfinished record before it are dropped.
    pub dropped: u64,
    /// Whether it stands inside a record, which is then incomplete.
    pub in_record: bool,
    /// Whether that number is lower than the log's own: the file was an earlier log's before.
    pub is_older: bool,
}

/// The end of a log that came too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torn {
    /// Where the part that is incomplete begins, in bytes from the start of the log.
    pub offset: u64,
    /// How many bytes are dropped, those of an unfinished record before them included.
    pub dropped: u64,
    /// Whether what is incomplete is of this log, as [`Damage::own`] says it of damage.
    pub own: bool,
    /// What the log ends inside.
    pub reason: TornReason,
}

/// What a log ends inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TornReason {
    /// A fragment's header.
    Header,
    /// Zeros too few for a header: space that was allocated and never written.
    ZeroPadding,
    /// A fragment's payload.
    Payload,
    /// A record, after a whole fragment of it.
    Record,
    /// A write of which a part was never written. No reader finds that by itself: it takes a look
    /// at what is zeros.
    Unwritten,
}

impl fmt::Display for TornReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "the log ends inside a header",
            Self::ZeroPadding => "the log ends in zeros too few for a header",
            Self::Payload => "the log ends inside a fragment",
            Self::Record => "the log ends inside a record",
            Self::Unwritten => "a part of the last write was never written",
        })
    }
}
