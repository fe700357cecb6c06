//! Internal keys: a user key, then eight bytes of sequence number and value type.
//!
//! The trailer is `sequence << 8 | type`, little-endian. Internal keys sort by user key in the
//! column family's order, then by trailer descending, so that the newest version of a key comes
//! first and a seek to `(key, snapshot)` lands on the newest version that the snapshot sees.
//! Source: `db/dbformat.h`.

use std::cmp::Ordering;
use std::fmt;

use crate::comparator::Comparator;
use crate::{Error, Result};

/// The number of a write; later writes have higher numbers. 56 bits.
pub type Sequence = u64;

/// The highest sequence number: a read at this number sees everything.
pub const MAX_SEQUENCE: Sequence = (1 << 56) - 1;

/// The length of the trailer that turns a user key into an internal key, in bytes.
pub const TRAILER_LENGTH: usize = 8;

/// The effect of a record on its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum ValueType {
    /// The key is deleted.
    Deletion = 0x0,
    /// The record sets the key to the value that the record contains.
    Value = 0x1,
    /// An operand to be merged with older entries of the key.
    Merge = 0x2,
    /// The key is deleted. The key must have been written exactly once since its last deletion.
    SingleDeletion = 0x7,
    /// Every key from this one up to, but not including, the key in the value is deleted.
    RangeDeletion = 0xF,
    /// The value is in a blob file, at this location.
    BlobIndex = 0x11,
    /// The key is deleted; the user key ends in a timestamp.
    DeletionWithTimestamp = 0x14,
    /// The value is an entity of named columns.
    WideColumnEntity = 0x16,
    /// A value from a timed put, followed by a lower sequence number that a compaction may give the
    /// record.
    ValuePreferredSequence = 0x18,
}

impl ValueType {
    /// The type in the trailer of a seek target. It is the highest type, so that the target sorts
    /// before all records of the same key and sequence number.
    pub const FOR_SEEK: u8 = 0x18;

    /// Returns the type with this number; `None` if no record in a table or memtable has this
    /// number.
    #[inline]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0x0 => Self::Deletion,
            0x1 => Self::Value,
            0x2 => Self::Merge,
            0x7 => Self::SingleDeletion,
            0xF => Self::RangeDeletion,
            0x11 => Self::BlobIndex,
            0x14 => Self::DeletionWithTimestamp,
            0x16 => Self::WideColumnEntity,
            0x18 => Self::ValuePreferredSequence,
            _ => return None,
        })
    }
}

/// Packs sequence number and value type: `sequence << 8 | type`.
#[inline]
pub const fn pack_trailer(sequence: Sequence, value_type: u8) -> u64 {
    (sequence << 8) | value_type as u64
}

/// Splits an internal key into its user key and packed trailer.
#[inline(always)]
pub fn split(internal_key: &[u8]) -> Option<(&[u8], u64)> {
    let (user_key, trailer) = internal_key.split_last_chunk::<TRAILER_LENGTH>()?;
    Some((user_key, u64::from_le_bytes(*trailer)))
}

/// Returns the user key of an internal key; empty if the key is shorter than a trailer.
#[inline(always)]
pub fn user_key(internal_key: &[u8]) -> &[u8] {
    match split(internal_key) {
        Some((user_key, _)) => user_key,
        None => &[],
    }
}

/// Appends the internal key with these parts.
#[inline]
pub fn put_internal_key(out: &mut Vec<u8>, user_key: &[u8], trailer: u64) {
    out.reserve(user_key.len() + TRAILER_LENGTH);
    out.extend_from_slice(user_key);
    out.extend_from_slice(&trailer.to_le_bytes());
}

/// Compares two internal keys: by user key, then the higher trailer first.
#[inline(always)]
pub fn compare_internal(comparator: &Comparator, a: &[u8], b: &[u8]) -> Ordering {
    let (a_key, a_trailer) = split(a).unwrap_or((a, 0));
    let (b_key, b_trailer) = split(b).unwrap_or((b, 0));
    comparator.compare(a_key, b_key).then(b_trailer.cmp(&a_trailer))
}

/// An internal key, split into its parts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ParsedKey<'a> {
    /// The user key.
    pub user_key: &'a [u8],
    /// The sequence number of the write that made the record.
    pub sequence: Sequence,
    /// The effect of the record on the key.
    pub value_type: ValueType,
}

impl<'a> ParsedKey<'a> {
    /// Splits an internal key into its parts.
    ///
    /// # Errors
    /// Corruption, if the key is shorter than a trailer, or if no table contains records of the
    /// key's type.
    #[inline]
    pub fn parse(internal_key: &'a [u8]) -> Result<Self> {
        let (user_key, trailer) = split(internal_key)
            .ok_or_else(|| Error::truncated("internal key", internal_key.len()))?;
        let value_type = ValueType::from_byte(trailer as u8).ok_or_else(|| {
            let found = format!("type {:#x}", trailer as u8);
            Error::corruption("internal key", user_key.len(), "a known value type", found)
        })?;
        Ok(Self { user_key, sequence: trailer >> 8, value_type })
    }

    /// Returns the internal key.
    pub fn to_vec(self) -> Vec<u8> {
        let mut out = Vec::new();
        put_internal_key(
            &mut out,
            self.user_key,
            pack_trailer(self.sequence, self.value_type as u8),
        );
        out
    }
}

impl fmt::Debug for ParsedKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' @ {} : {:?}", self.user_key.escape_ascii(), self.sequence, self.value_type)
    }
}
