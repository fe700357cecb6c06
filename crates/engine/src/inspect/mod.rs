//! Looking into the files of a database, one by one and record by record.
//!
//! What a database does with a damaged file is to refuse it or to leave a part of it out. Here
//! damage is a value like any other: a reader says where it is and what is wrong with it, and goes
//! on behind it as far as the format lets it. Nothing here opens a database, takes a lock or
//! changes a file; the files may belong to a database that is open for writing, and are then seen
//! as they are at this moment.
//!
//! ```text
//! manifest   MANIFEST files: version edits, and what they lead to
//! wal        write-ahead logs: batches
//! table      tables (SST): footer, meta blocks, index, data blocks, entries
//! blob       blob files: header, records, footer
//! ```
//!
//! Offsets and lengths are in bytes and count from the start of the file.

pub mod blob;
pub mod manifest;
pub mod record_log;
pub mod table;
pub mod wal;

use tailwater_io::{Purpose, ReadFile};

use crate::{Error, Result};

/// Reads `length` bytes at `offset`.
///
/// # Errors
/// Corruption, where the file ends before that; those of the system.
fn read_exactly(
    file: &dyn ReadFile,
    offset: u64,
    length: usize,
    purpose: Purpose,
) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let count = file.read_full_at(&mut bytes, offset, purpose)?;
    if count < length {
        let message = format!("{length} bytes end after {count}");
        return Err(Error::corruption_at(file.path(), offset, message));
    }
    Ok(bytes)
}
