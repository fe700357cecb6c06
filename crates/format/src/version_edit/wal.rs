//! The field that records that a log was started or synced. Source: `db/wal_edit.cc`.

use crate::varint::{Reader, put_varint32, put_varint64};
use crate::{Error, Result};

/// Tag that ends the field.
const END: u32 = 1;

/// Tag of the custom field with the synced length.
const SYNCED_SIZE: u32 = 2;

/// A log that was started or synced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WalAddition {
    /// The number in the log's name.
    pub log_number: u64,
    /// Number of bytes synced; `None` if the log was started and no length is recorded yet.
    pub synced_size: Option<u64>,
}

impl WalAddition {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let mut addition = Self { log_number: reader.varint64("log number")?, synced_size: None };
        loop {
            match reader.varint32("tag in the addition of a log")? {
                END => return Ok(addition),
                SYNCED_SIZE => {
                    let size = reader.varint64("synced size of a log")?;
                    // RocksDB writes the highest number if it does not know the size. So this
                    // number is read as an unknown size.
                    addition.synced_size = Some(size).filter(|&size| size != u64::MAX);
                }
                tag => {
                    return Err(Error::unsupported(format!("tag {tag} in the addition of a log")));
                }
            }
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint64(out, self.log_number);
        if let Some(size) = self.synced_size {
            put_varint32(out, SYNCED_SIZE);
            put_varint64(out, size);
        }
        put_varint32(out, END);
    }
}
