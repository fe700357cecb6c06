//! A recording of calls, and a journal of their effects on the disk.

use super::calls::{Call, Opening};
use super::disk::{Disk, Effect};

/// One effect of a call on the disk.
#[derive(Debug, Clone)]
pub(super) struct JournalEntry {
    pub(super) call: u64,
    pub(super) now_us: u64,
    pub(super) effect: Effect,
}

/// The calls since recording began and their effects.
#[derive(Debug)]
pub(super) struct Recording {
    /// The disk before the first recorded call.
    pub(super) base: Disk,
    pub(super) calls: Vec<Call>,
    pub(super) openings: Vec<Opening>,
    pub(super) journal: Vec<JournalEntry>,
}

impl Recording {
    /// Begins a recording on this disk.
    pub(super) fn of(base: Disk) -> Self {
        Self { base, calls: Vec::new(), openings: Vec::new(), journal: Vec::new() }
    }
}
