//! Inspection of single database files, record by record.
//!
//! A database refuses a damaged file or skips a part of it. Here damage is an ordinary value: a
//! reader returns its location and cause, and continues after it if the format allows. Nothing here
//! opens a database, takes a lock or changes a file. Files of a database that is open for writing
//! are read in their current state.
//!
//! ```text
//! manifest   MANIFEST files: version edits, and the resulting state
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

#[doc(inline)]
pub use tailwater_format::blob::{BlobFileFooter, BlobFileHeader};
#[doc(inline)]
pub use tailwater_format::block::Layout;
#[doc(inline)]
pub use tailwater_format::compress::Compression;
#[doc(inline)]
pub use tailwater_format::key::ValueType;
#[doc(inline)]
pub use tailwater_format::record_log::{PredecessorWal, RecoveryMode, Verdict};
#[doc(inline)]
pub use tailwater_format::table::meta::MetaBlock;
#[doc(inline)]
pub use tailwater_format::table::{BlockHandle, Footer, Properties};
#[doc(inline)]
pub use tailwater_format::version_edit::{BlobFileAddition, NewFile, VersionEdit};

use tailwater_io::{Purpose, ReadFile};

use crate::error::{Error, Result};

/// Reads `length` bytes at `offset`.
///
/// # Errors
/// Corruption, if the file ends earlier; I/O errors.
fn read_exactly(file: &dyn ReadFile, offset: u64, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let count = file.read_full_at(&mut bytes, offset, Purpose::Verification)?;
    if count < length {
        let message = format!("only {count} of {length} bytes are in the file");
        return Err(Error::corruption_at(file.path(), offset, message));
    }
    Ok(bytes)
}
