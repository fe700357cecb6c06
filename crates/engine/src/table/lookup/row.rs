//! What a table added to a lookup, encoded as a row of the row cache.
//!
//! ```text
//! varint64  sequence number of the range tombstone that covers the key; 0 for none
//! varint64  number of merge operands; then each operand, length-prefixed, newest first
//! u8        tag of the record that ended the lookup, see `Tag`
//! rest      for a value: the value; for a blob: the key, length-prefixed, and the blob index
//! ```

use tailwater_format::varint::{Reader, put_length_prefixed, put_varint64};

use super::{Answer, Lookup, Step};
use crate::error::{Error, Result};
use crate::table::row_cache::malformed;
use crate::table::{Owner, Sink};

/// The record of a row that ended the lookup.
#[repr(u8)]
enum Tag {
    /// There is none: the lookup goes on.
    Open,
    Deleted,
    Value,
    Blob,
}

impl Tag {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Open, Self::Deleted, Self::Value, Self::Blob].into_iter().nth(byte.into())
    }
}

impl<S: Sink> Lookup<'_, S> {
    /// Whether the lookup has found a record of the key since it had `operands` operands.
    pub(crate) fn has_found_since(&self, operands: usize) -> bool {
        self.operands.len() > operands || self.answer != Answer::Open
    }

    /// Appends what the lookup has found since it had `operands` operands, and no range tombstone.
    pub(crate) fn put_row(&self, operands: usize, row: &mut Vec<u8>) {
        let operands = self.operands.get(operands..).unwrap_or_default();
        put_varint64(row, self.covering);
        put_varint64(row, operands.len() as u64);
        for operand in operands {
            put_length_prefixed(row, operand);
        }
        match &self.answer {
            Answer::Open => row.push(Tag::Open as u8),
            Answer::Deleted => row.push(Tag::Deleted as u8),
            Answer::Delivered => {
                row.push(Tag::Value as u8);
                self.sink.with_value(|value| row.extend_from_slice(value));
            }
            Answer::Base(value) => {
                row.push(Tag::Value as u8);
                row.extend_from_slice(value);
            }
            Answer::Blob { user_key, index } => {
                row.push(Tag::Blob as u8);
                put_length_prefixed(row, user_key);
                row.extend_from_slice(index);
            }
        }
    }

    /// Adds to the lookup what [`Self::put_row`] encoded. `owner` owns the row.
    pub(crate) fn replay(&mut self, row: &mut Reader<'_>, owner: Owner<'_>) -> Result<Step> {
        let covering = row.varint64("range tombstone of a row").map_err(malformed)?;
        self.cover(Some(covering));
        for _ in 0..row.varint64("number of operands").map_err(malformed)? {
            let operand = row.length_prefixed("operand of a row").map_err(malformed)?;
            self.operands.push(operand.to_vec());
        }
        match Tag::from_byte(row.u8("tag of a row").map_err(malformed)?) {
            Some(Tag::Open) => return Ok(Step::Continue),
            Some(Tag::Deleted) => self.answer = Answer::Deleted,
            Some(Tag::Value) => self.take_value(row.remaining(), owner),
            Some(Tag::Blob) => {
                let user_key = row.length_prefixed("key of a row").map_err(malformed)?.to_vec();
                self.answer = Answer::Blob { user_key, index: row.remaining().to_vec() };
            }
            None => return Err(Error::internal("a row in the row cache has an unknown tag")),
        }
        Ok(Step::Done)
    }
}
