//! The bytes of RocksDB's files and of the message log: encode, decode, verify.
//!
//! Nothing here opens a file, reads a clock or starts a thread. Every decoder takes a slice and
//! returns a value or an [`Error`] with the offset in the slice, what was expected and what was
//! found; no decoder panics, whatever the bytes.
#![deny(clippy::indexing_slicing)]

pub mod batch;
pub mod blob;
pub mod block;
pub mod checksum;
pub mod claim;
pub mod comparator;
pub mod compress;
mod error;
pub mod file_name;
pub mod filter;
pub mod hash;
pub mod key;
pub mod limits;
pub mod message;
pub mod options_text;
pub mod record_log;
pub mod table;
pub mod timed_value;
pub mod user_code;
pub mod varint;
pub mod version_edit;
pub mod wide_column;
mod xxph3;

pub use comparator::Comparator;
pub use error::{Error, Result};
