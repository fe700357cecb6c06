//! Engines, and the options with which they read.

use std::fmt;
use std::path::Path;

use crate::store::{Failure, Store};

/// An open database, or the engine's error.
pub type Opened = Result<Box<dyn Store>, Failure>;

/// An engine whose cold reads are measured.
pub struct ColdEngine {
    /// The engine's name in reports and as an argument.
    pub name: &'static str,
    /// Whether the engine has the read option `async_io`. Its rows are measured with and without
    /// the option.
    pub has_async_io: bool,
    /// Opens the database in a directory, whose reads have the given options. The option string is
    /// RocksDB's.
    pub open: fn(&Path, &str, Reading) -> Opened,
}

impl fmt::Debug for ColdEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColdEngine").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The options of reads in which rows differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// The read option `async_io`; with it, `optimize_multiget_for_io` too.
    pub async_io: bool,
    /// The read option `readahead_size`, in bytes; 0 for a size that the engine adapts.
    pub readahead_bytes: usize,
}

impl Reading {
    /// Returns the label of these options in reports; empty for the default options.
    pub(super) fn label(self) -> String {
        let async_io = if self.async_io { " async_io" } else { "" };
        match self.readahead_bytes {
            0 => async_io.to_owned(),
            bytes => format!("{async_io} readahead {} KiB", bytes >> 10),
        }
    }
}

impl ColdEngine {
    /// Returns the options of reads with which the engine is measured, given those without
    /// `async_io`.
    pub(super) fn readings(&self, without: &[Reading]) -> Vec<Reading> {
        let asynchronous = without.iter().map(|reading| Reading { async_io: true, ..*reading });
        let asynchronous = asynchronous.filter(|_| self.has_async_io);
        without.iter().copied().chain(asynchronous).collect()
    }
}
