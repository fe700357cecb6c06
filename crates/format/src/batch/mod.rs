//! Write batches: the changes of one write, encoded as in the write-ahead log.
//!
//! ```text
//! batch  := sequence: fixed64, count: fixed32, record*
//! record := tag: u8, [column family: varint32], [key: slice], [value: slice]
//! slice  := length: varint32, bytes
//! ```
//!
//! `sequence` is the sequence number of the first record that changes a key; each such record takes
//! the next number, and `count` is the number of such records. Records that change no key (log
//! data, markers of transactions) take no number and are not counted. The tag determines whether a
//! column family's id follows it; without it the record is for the default column family, id 0.
//! Source: `db/write_batch.cc`, `db/dbformat.h`.

mod builder;
mod reader;
mod record;

pub use crate::limits::{ENTRY_LENGTH_MAX, KEY_LENGTH_MAX};
pub use builder::WriteBatch;
pub use reader::BatchReader;
pub use record::{Record, RecordKind};

/// The length of a batch's header, in bytes.
pub const HEADER_LENGTH: usize = 12;

/// Offset of the number of records in the header, in bytes.
const COUNT_OFFSET: usize = 8;

/// The ID of the column family `default`.
pub const DEFAULT_FAMILY: u32 = 0;

/// Something that identifies a column family in a batch: an ID, or a handle.
pub trait AsColumnFamilyId {
    /// Returns the ID of the column family.
    fn column_family_id(&self) -> u32;
}

impl AsColumnFamilyId for u32 {
    #[inline]
    fn column_family_id(&self) -> u32 {
        *self
    }
}

impl<F: AsColumnFamilyId + ?Sized> AsColumnFamilyId for &F {
    #[inline]
    fn column_family_id(&self) -> u32 {
        (**self).column_family_id()
    }
}
