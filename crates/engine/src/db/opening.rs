//! Which opening of a database something belongs to.

use std::sync::atomic::{AtomicU64, Ordering};

/// One opening of one database in this process, for writing or for reading. Handles to column
/// families have that of the database that gave them, so that another one knows them for foreign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpeningId(u64);

impl OpeningId {
    /// One that there was not before: other than an address, it is never used again.
    pub(crate) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
