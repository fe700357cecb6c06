//! The configurations of Tailwater that are compared.

use clap::ValueEnum;
use serde::Serialize;

/// A configuration of Tailwater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Configuration {
    /// The log goes through the page cache
    Buffered,
    /// The log bypasses the page cache
    Direct,
    /// The log bypasses the page cache only while most writes are synced
    Auto,
}

impl Configuration {
    /// Returns the configuration's name in reports, and an option string. The option string is
    /// appended to the options with which all engines are opened.
    pub(super) fn row(self) -> (&'static str, &'static str) {
        match self {
            Self::Buffered => ("buffered", "wal_io_mode=buffered"),
            Self::Direct => ("direct", "wal_io_mode=direct"),
            Self::Auto => ("auto", "wal_io_mode=auto"),
        }
    }
}
