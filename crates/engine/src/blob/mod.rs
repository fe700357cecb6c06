//! Blob files: large values that are stored outside the tables.
//!
//! A table holds a blob index in place of such a value. The record it points at repeats the key and
//! carries checksums over its header, key and value, all of which are checked on every read.

mod cache;
mod reader;

pub(crate) use cache::{BlobCache, OpenBlobFiles};
pub(crate) use reader::BlobReader;
