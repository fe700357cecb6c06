//! Crash images: copies of the simulated disk as a crash would leave it, either after all calls so
//! far or just before any recorded call.

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

    /// Returns a copy of the disk as a power cut at this point may leave it. `seed` selects which
    /// pending changes survive, and seeds the randomness of the new storage. The image is a
    /// separate disk without faults, handles and locks. It keeps this disk's clock, device
    /// parameters and refusals of direct I/O.
    pub fn crash_image(&self, seed: u64) -> Self {
        let state = self.state();
        ImageContext::of(&state).crash_image(&state.disk, seed)
    }

    /// Returns a copy of the disk after a power cut just before call number `call`. The method
    /// [`Self::crash_image`] does the same for a power cut now. For many images [`Self::replay`] is
    /// cheaper.
    ///
    /// # Panics
    /// If recording was not started.
    pub fn crash_image_at(&self, call: u64, seed: u64) -> Self {
        let mut replay = self.replay();
        replay.advance_to(call);
        replay.crash_image(seed)
    }

    /// Returns a copy of the disk after a crash of the process at this point, without a power cut.
    /// Everything that was written survives. What was not synced is still pending, so a later power
    /// cut can lose it. `seed` seeds the randomness of the new storage.
    pub fn process_crash_image(&self, seed: u64) -> Self {
        let state = self.state();
        ImageContext::of(&state).process_crash_image(&state.disk, seed)
    }
}

/// Steps through the recorded calls. At each recorded call, a crash image shows what a crash just
/// before that call would leave on the disk.
///
/// The recording is copied, so later calls on the storage do not change the replay.
#[derive(Debug)]
pub struct Replay {
    disk: Disk,
    journal: Vec<JournalEntry>,
    /// Number of journal entries that have been applied to `disk`.
    applied: usize,
    surroundings: ImageContext,
}

/// What a crash image inherits from its storage besides the content of the disk.
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

    /// Returns the storage that a power cut may leave if the disk holds `disk` at that time.
    fn crash_image(&self, disk: &Disk, seed: u64) -> SimStorage {
        self.storage(disk.after_crash(&mut fastrand::Rng::with_seed(seed)), seed)
    }

    /// Returns the storage that a crash of the process, without a power cut, leaves.
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

    /// Steps forward to just before call number `call`. A replay never steps back: if `call` is at
    /// or before the current position, nothing happens.
    pub fn advance_to(&mut self, call: u64) {
        while let Some(entry) = self.journal.get(self.applied).filter(|entry| entry.call < call) {
            self.disk.apply(&entry.effect, entry.now_us);
            self.applied += 1;
        }
    }

    /// Returns a copy of the disk as a power cut may leave it just before the recorded call that
    /// the replay has reached. `seed` selects which pending changes survive, and seeds the
    /// randomness of the new storage.
    pub fn crash_image(&self, seed: u64) -> SimStorage {
        self.surroundings.crash_image(&self.disk, seed)
    }

    /// Returns a copy of the disk after a crash of the process, without a power cut, just before
    /// the recorded call that the replay has reached. Everything that was written survives. What
    /// was not synced is still pending, so a later power cut can lose it. `seed` seeds the
    /// randomness of the new storage.
    pub fn process_crash_image(&self, seed: u64) -> SimStorage {
        self.surroundings.process_crash_image(&self.disk, seed)
    }
}
