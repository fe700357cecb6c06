//! Identification of one opening of a database.

use std::sync::atomic::{AtomicU64, Ordering};

/// One opening of one database in this process, for writing or for reading. Handles to column
/// families hold it, so that other databases recognize them as foreign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpeningId(u64);

impl OpeningId {
    /// Returns a new ID. Unlike an address, it is never reused.
    pub(crate) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
