//! The disk after a crash: now, or before any recorded call.

use std::path::PathBuf;
use std::sync::Arc;

use super::disk::Disk;
use super::recording::{JournalEntry, Recording};
use super::state::{DeviceTimes, State};
use super::storage::SimStorage;
use crate::clock::ManualClock;

/// Controls for tests: images of the disk after a crash.
impl SimStorage {
    /// Returns a replay of the recording, positioned before the first recorded call.
    ///
    /// # Panics
    /// If recording was not started.
    pub fn replay(&self) -> Replay {
        let state = self.state();
        match &state.recording {
            Some(recording) => Replay::new(recording, ImageContext::of(&state)),
            None => panic!("call start_recording before the calls to replay"),
        }
    }

    /// Returns what the disk may hold after a power cut now, depending on `seed`, which the new
    /// storage also uses. The image is a separate disk, without faults, handles and locks, but with
    /// the same refusals of direct I/O.
    pub fn crash_image(&self, seed: u64) -> Self {
        let state = self.state();
        ImageContext::of(&state).crash_image(&state.disk, seed)
    }

    /// Returns what the disk may hold after a power cut right before the call with this number. For
    /// many images [`Self::replay`] is cheaper.
    ///
    /// # Panics
    /// If recording was not started.
    pub fn crash_image_at(&self, call: u64, seed: u64) -> Self {
        let mut replay = self.replay();
        replay.advance_to(call);
        replay.crash_image(seed)
    }

    /// Returns the disk after a crash of the process alone now: everything that was written. Bytes
    /// and names that were not synced are still not durable. `seed` is for the new storage.
    pub fn process_crash_image(&self, seed: u64) -> Self {
        let state = self.state();
        ImageContext::of(&state).process_crash_image(&state.disk, seed)
    }
}

/// Steps forward through the recording and returns what a crash would leave before each call.
///
/// The recording is copied, so later calls on the storage do not change the replay.
#[derive(Debug)]
pub struct Replay {
    disk: Disk,
    journal: Vec<JournalEntry>,
    /// Number of journal entries that were applied.
    applied: usize,
    surroundings: ImageContext,
}

/// The state other than the disk that an image inherits from its storage.
#[derive(Debug, Clone)]
struct ImageContext {
    next_id: u64,
    clock: Arc<ManualClock>,
    direct_refused: Vec<PathBuf>,
    alignment: usize,
    request_bytes_max: Option<usize>,
    direct_write_fault: Option<&'static str>,
    times: DeviceTimes,
}

impl ImageContext {
    fn of(state: &State) -> Self {
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

    /// Returns what the disk may hold after a power cut now.
    fn crash_image(&self, disk: &Disk, seed: u64) -> SimStorage {
        self.storage(disk.after_crash(&mut fastrand::Rng::with_seed(seed)), seed)
    }

    /// Returns the disk after a crash of the process alone now.
    fn process_crash_image(&self, disk: &Disk, seed: u64) -> SimStorage {
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
    fn new(recording: &Recording, surroundings: ImageContext) -> Self {
        let (disk, journal) = (recording.base.clone(), recording.journal.clone());
        Self { disk, journal, applied: 0, surroundings }
    }

    /// Steps forward to just before the call with this number. It never steps back: a number that
    /// has been passed has no effect.
    pub fn advance_to(&mut self, call: u64) {
        while let Some(entry) = self.journal.get(self.applied).filter(|entry| entry.call < call) {
            self.disk.apply(&entry.effect, entry.now_us);
            self.applied += 1;
        }
    }

    /// Returns what the disk may hold after a power cut at this point, depending on `seed`.
    pub fn crash_image(&self, seed: u64) -> SimStorage {
        self.surroundings.crash_image(&self.disk, seed)
    }

    /// Returns the disk after a crash of the process alone at this point: everything that was
    /// written. Bytes and names that were not synced are still not durable. `seed` is for the new
    /// storage.
    pub fn process_crash_image(&self, seed: u64) -> SimStorage {
        self.surroundings.process_crash_image(&self.disk, seed)
    }
}
