//! The recording of a simulated disk: the calls made on it, and a journal of their effects.

use super::calls::{Call, Opening, WriteCall};
use super::disk::{Disk, Effect};

/// One effect on the disk. `call` is the number of the call that had the effect. `now_us` is the
/// time of the simulated clock when the effect was applied, in microseconds since 1970.
#[derive(Debug, Clone)]
pub(super) struct JournalEntry {
    pub(super) call: u64,
    pub(super) now_us: u64,
    pub(super) effect: Effect,
}

/// The calls since recording began, and their effects.
#[derive(Debug)]
pub(super) struct Recording {
    /// A copy of the disk before the first recorded call.
    pub(super) base: Disk,
    pub(super) calls: Vec<Call>,
    pub(super) openings: Vec<Opening>,
    pub(super) writes: Vec<WriteCall>,
    pub(super) journal: Vec<JournalEntry>,
}

impl Recording {
    /// Begins a recording. `base` is a copy of the disk at this point.
    pub(super) fn of(base: Disk) -> Self {
        Self {
            base,
            calls: Vec::new(),
            openings: Vec::new(),
            writes: Vec::new(),
            journal: Vec::new(),
        }
    }
}
