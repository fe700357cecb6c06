//! What a crash leaves: of the disk at this moment, or as it was before any recorded call.

use std::path::PathBuf;
use std::sync::Arc;

use super::calls::{Call, Opening};
use super::disk::{Disk, Effect};
use super::state::{DeviceTimes, State};
use super::storage::SimStorage;
use crate::clock::ManualClock;

/// One thing that a call did to the disk.
#[derive(Debug, Clone)]
pub(super) struct JournalEntry {
    pub(super) call: u64,
    pub(super) now_us: u64,
    pub(super) effect: Effect,
}

/// The calls since recording began and what they did.
#[derive(Debug)]
pub(super) struct Recording {
    /// The disk before the first recorded call.
    pub(super) base: Disk,
    pub(super) calls: Vec<Call>,
    pub(super) openings: Vec<Opening>,
    pub(super) journal: Vec<JournalEntry>,
}

/// Walks forward through what was recorded and answers what a crash would leave before each call.
///
/// It is a copy: the storage goes on without it.
#[derive(Debug)]
pub struct Replay {
    disk: Disk,
    journal: Vec<JournalEntry>,
    /// How much of the journal the disk holds.
    applied: usize,
    surroundings: Surroundings,
}

/// What an image takes over from its storage beside the disk.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    next_id: u64,
    clock: Arc<ManualClock>,
    direct_refused: Vec<PathBuf>,
    alignment: usize,
    request_bytes_max: Option<usize>,
    direct_write_fault: Option<&'static str>,
    times: DeviceTimes,
}

impl Surroundings {
    pub(super) fn of(state: &State) -> Self {
        Self {
            next_id: state.next_id,
            clock: Arc::clone(&state.clock),
            direct_refused: state.direct_refused.clone(),
            alignment: state.alignment,
            request_bytes_max: state.request_bytes_max,
            direct_write_fault: state.direct_write_fault,
            times: state.times,
        }
    }

    /// What the disk may hold after a power cut at this moment.
    pub(super) fn crash_image(&self, disk: &Disk, seed: u64) -> SimStorage {
        self.storage(disk.after_crash(&mut fastrand::Rng::with_seed(seed)), seed)
    }

    /// What is left after a crash of the process at this moment.
    pub(super) fn process_crash_image(&self, disk: &Disk, seed: u64) -> SimStorage {
        self.storage(disk.after_process_crash(), seed)
    }

    fn storage(&self, disk: Disk, seed: u64) -> SimStorage {
        let mut state = State::new(disk, self.next_id, Arc::clone(&self.clock), seed);
        state.direct_refused.clone_from(&self.direct_refused);
        state.alignment = self.alignment;
        state.request_bytes_max = self.request_bytes_max;
        state.direct_write_fault = self.direct_write_fault;
        state.times = self.times;
        SimStorage::with_state(state)
    }
}

impl Replay {
    pub(super) fn new(recording: &Recording, surroundings: Surroundings) -> Self {
        let (disk, journal) = (recording.base.clone(), recording.journal.clone());
        Self { disk, journal, applied: 0, surroundings }
    }

    /// Goes forward to the moment before the call with this number. It never goes back: a number
    /// that has been passed leaves it where it is.
    pub fn advance_to(&mut self, call: u64) {
        while let Some(entry) = self.journal.get(self.applied).filter(|entry| entry.call < call) {
            self.disk.apply(&entry.effect, entry.now_us);
            self.applied += 1;
        }
    }

    /// What the disk may hold after a power cut at this moment; `seed` decides what of it.
    pub fn crash_image(&self, seed: u64) -> SimStorage {
        self.surroundings.crash_image(&self.disk, seed)
    }

    /// What is left after a crash of the process at this moment: everything written. What was not
    /// synced is still not durable. `seed` is that of the new storage.
    pub fn process_crash_image(&self, seed: u64) -> SimStorage {
        self.surroundings.process_crash_image(&self.disk, seed)
    }
}
