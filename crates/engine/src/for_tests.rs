//! Internals that this crate's integration tests exercise directly. Not part of the public API.

pub use crate::table::Builder;
pub use crate::table::builder::{FinishedTable, Format, Origin, TableCompression};
