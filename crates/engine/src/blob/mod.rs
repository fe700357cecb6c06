//! Blob files: large values that are stored outside the tables.
//!
//! In place of the value, a table holds a blob index, which refers to a record in a blob file. The
//! record repeats the key, and has checksums of its header, key and value. Every read checks the
//! key and the checksums.

mod cache;
mod reader;

pub(crate) use cache::{BlobCache, OpenBlobFiles};
pub(crate) use reader::{BlobReader, PackedValue};
