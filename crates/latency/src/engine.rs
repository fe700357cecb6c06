//! An engine that is compared with others.

use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;

/// An engine. `D` is the interface that an experiment needs of its open databases.
#[derive(Debug, Serialize)]
pub struct Engine<D: ?Sized> {
    /// The engine's name in reports and as an argument.
    #[serde(rename = "engine")]
    pub name: &'static str,
    /// Opens the database in a directory. The option string is RocksDB's; an engine with different
    /// options uses the closest ones.
    #[serde(skip)]
    pub open: fn(&Path, &str) -> Result<Box<D>, Failure>,
}
