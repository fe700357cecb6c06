//! Blob files: large values that are stored outside the tables.
//!
//! Instead of such a value, a table holds a blob index, which refers to a record in a blob file.
//! The record repeats the key, and has checksums of its header, key and value. All of them are
//! checked on every read.

mod cache;
mod reader;

pub(crate) use cache::{BlobCache, OpenBlobFiles};
pub(crate) use reader::BlobReader;
