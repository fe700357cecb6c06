//! An identifier of each opening of a database.

use std::sync::atomic::{AtomicU64, Ordering};

/// Identifies one opening of a database in this process, for writing or for reading. Handles to
/// column families hold this identifier, so that other databases recognize such a handle as
/// foreign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpeningId(u64);

impl OpeningId {
    /// Returns a new identifier. Unlike an address, it is never reused.
    pub(crate) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
