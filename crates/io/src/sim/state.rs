//! The state that all handles on a simulated disk share behind one lock, and the entry point that
//! every simulated call passes (`State::begin`).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::acknowledged::Acknowledged;
use super::calls::Call;
use super::disk::{Disk, Effect};
use super::faults::{Fault, FaultPlan};
use super::namespace::{Change, FileId, Node};
use super::recording::{JournalEntry, Recording};
use crate::buffer::ALIGNMENT;
use crate::clock::{Clock, ManualClock};
use crate::descriptors::{DescriptorBudget, Exhausted};
use crate::error::Operation;
use crate::purpose::Purpose;
use crate::statistics::Statistics;
use crate::sync::Mutex;

/// Number of changes to directory entries after which a sweep frees the files that can no longer be
/// reached.
const REMOVALS_BETWEEN_SWEEPS: u32 = 64;

/// How much of its work a call does: all of it, a part of a transfer, or nothing with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Whole,
    Short,
    Fail(Errno),
}

impl Verdict {
    /// Converts the verdict for a call that succeeds or fails as a whole. Such a call transfers no
    /// bytes that could be cut short, so `Short` means success.
    pub(super) fn all_or_nothing(self) -> io::Result<()> {
        match self {
            Self::Whole | Self::Short => Ok(()),
            Self::Fail(error) => Err(error.into()),
        }
    }
}

/// Durations of writes and syncs on a simulated device, in nanoseconds by which a call advances the
/// simulated clock. All zero by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceTimes {
    /// Duration of an ordinary write, which is not durable when it returns.
    pub write_ns: u64,
    /// Duration of a write that is durable when it returns.
    pub durable_write_ns: u64,
    /// Duration of a sync of a file.
    pub sync_ns: u64,
}

/// Returns whether a call needs a free descriptor, if only while it lasts.
fn needs_descriptor(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Open
            | Operation::Create
            | Operation::Lock
            | Operation::List
            | Operation::SyncDirectory
    )
}

/// What all handles on a disk share: the content of the disk, its open files and their locks.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) state: Mutex<State>,
    pub(super) statistics: Statistics,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) disk: Disk,
    pub(super) clock: Arc<ManualClock>,
    pub(super) plan: FaultPlan,
    pub(super) recording: Option<Recording>,
    /// Number of calls that advised the system of random reads (`advise_random`).
    pub(super) advised_random: u64,
    pub(super) acknowledged: Acknowledged,
    pub(super) locked: BTreeSet<FileId>,
    pub(super) direct_refused: Vec<PathBuf>,
    /// Required alignment of direct transfers, in bytes.
    pub(super) alignment: usize,
    /// The largest request that the device reports, in bytes; `None` if it reports none.
    pub(super) request_bytes_max: Option<usize>,
    /// The reported reason why direct writes lose data on this disk; `None` if they are safe.
    pub(super) direct_write_fault: Option<&'static str>,
    /// Durations of writes and syncs.
    pub(super) times: DeviceTimes,
    /// Number of calls begun so far. Calls are numbered from 0, so this is also the number of the
    /// next call.
    pub(super) calls: u64,
    pub(super) next_id: u64,
    random: fastrand::Rng,
    power_is_cut: bool,
    /// Number of handles of each open file.
    open: BTreeMap<FileId, usize>,
    /// Maximum number of handles of all files together.
    pub(super) open_files_max: usize,
    /// The highest number of handles that were open at the same time.
    pub(super) open_files_peak: usize,
    /// Number of calls that found the limit on open files reached.
    pub(super) refused_descriptors: u64,
    /// The budget that is asked for relief when no descriptor is left.
    pub(super) budget: Option<DescriptorBudget>,
    removals: u32,
}

impl State {
    pub(super) fn new(disk: Disk, next_id: u64, clock: Arc<ManualClock>, seed: u64) -> Self {
        Self {
            disk,
            clock,
            plan: FaultPlan::none(),
            recording: None,
            advised_random: 0,
            acknowledged: Acknowledged::default(),
            locked: BTreeSet::new(),
            direct_refused: Vec::new(),
            alignment: ALIGNMENT,
            request_bytes_max: None,
            direct_write_fault: None,
            times: DeviceTimes::default(),
            calls: 0,
            next_id,
            random: fastrand::Rng::with_seed(seed),
            power_is_cut: false,
            open: BTreeMap::new(),
            open_files_max: usize::MAX,
            open_files_peak: 0,
            refused_descriptors: 0,
            budget: None,
            removals: 0,
        }
    }

    /// Begins a call: assigns its number, records it and applies the fault plan. Returns an error
    /// if the power is cut.
    pub(super) fn begin(
        &mut self,
        operation: Operation,
        path: &Path,
        purpose: Option<Purpose>,
    ) -> io::Result<Verdict> {
        let number = self.calls;
        self.calls += 1;
        if let Some(recording) = &mut self.recording {
            recording.calls.push(Call { number, operation, purpose, path: Arc::from(path) });
        }
        let fault = self.plan.strike(operation, path, purpose);
        if fault == Some(Fault::PowerCut) {
            self.power_is_cut = true;
        }
        if self.power_is_cut {
            return Err(io::Error::other("the power of the simulated disk is cut"));
        }
        let needs_descriptor = needs_descriptor(operation);
        if needs_descriptor && self.open_files() >= self.open_files_max {
            self.refused_descriptors += 1;
            return Err(Errno::MFILE.into());
        }
        Ok(match fault {
            Some(Fault::InputOutput) => Verdict::Fail(Errno::IO),
            Some(Fault::NoSpace) => Verdict::Fail(Errno::NOSPC),
            Some(Fault::NoDescriptor(_)) if !needs_descriptor => Verdict::Whole,
            Some(Fault::NoDescriptor(Exhausted::Process)) => Verdict::Fail(Errno::MFILE),
            Some(Fault::NoDescriptor(Exhausted::System)) => Verdict::Fail(Errno::NFILE),
            Some(Fault::Short) => Verdict::Short,
            Some(Fault::PowerCut) | None => Verdict::Whole,
        })
    }

    /// Begins a call as [`Self::begin`] does, for calls that succeed or fail as a whole. An
    /// injected error is returned as an error.
    pub(super) fn begin_whole(
        &mut self,
        operation: Operation,
        path: &Path,
        purpose: Option<Purpose>,
    ) -> io::Result<()> {
        self.begin(operation, path, purpose)?.all_or_nothing()
    }

    /// Advances the clock by the duration of the current call.
    pub(super) fn take_time(&self, duration_ns: u64) {
        if duration_ns > 0 {
            self.clock.advance(duration_ns);
        }
    }

    /// Applies an effect of the current call (the last one begun) to the disk, and records it in
    /// the journal.
    pub(super) fn apply(&mut self, effect: Effect) {
        let now_us = self.clock.wall_us();
        self.disk.apply(&effect, now_us);
        if let Some(recording) = &mut self.recording {
            recording.journal.push(JournalEntry { call: self.calls - 1, now_us, effect });
        }
    }

    /// Creates, replaces, renames or removes directory entries. After every
    /// `REMOVALS_BETWEEN_SWEEPS` such changes, frees the files that can no longer be reached.
    pub(super) fn change_names(&mut self, change: Change) {
        self.apply(Effect::Change(change));
        self.removals += 1;
        if self.removals >= REMOVALS_BETWEEN_SWEEPS {
            self.removals = 0;
            let open = &self.open;
            self.disk.forget_unreachable(|file| open.contains_key(&file));
        }
    }

    /// Returns an identifier that no file, directory or symbolic link of this disk has had before.
    pub(super) fn new_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Returns the file at a path and creates it if it does not exist. If `must_be_new`, an
    /// existing file is an error.
    pub(super) fn find_or_make(&mut self, path: &Path, must_be_new: bool) -> io::Result<FileId> {
        let names = &self.disk.names;
        let place =
            if must_be_new { names.place(path)? } else { names.place_behind_links(path)? };
        let Some(place) = place else { return Err(Errno::ISDIR.into()) };
        match self.disk.names.get(&place) {
            Some(_) if must_be_new => Err(Errno::EXIST.into()),
            Some(Node::Directory(_)) => Err(Errno::ISDIR.into()),
            Some(Node::Link(_)) => Err(Errno::LOOP.into()),
            Some(Node::File(file)) => Ok(file),
            None => {
                let file = FileId(self.new_id());
                self.apply(Effect::NewFile(file));
                self.change_names(Change::set(place, Node::File(file)));
                Ok(file)
            }
        }
    }

    /// Returns the number of open handles.
    pub(super) fn open_files(&self) -> usize {
        self.open.values().sum()
    }

    pub(super) fn opened(&mut self, file: FileId) {
        *self.open.entry(file).or_default() += 1;
        self.open_files_peak = self.open_files_peak.max(self.open_files());
    }

    pub(super) fn closed(&mut self, file: FileId) {
        if let Some(count) = self.open.get_mut(&file) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&file);
            }
        }
    }

    /// Returns the number of bytes that a short transfer of `length` bytes moves. The unit is one
    /// byte, or one aligned block if `direct`. The result is at least one unit and less than
    /// `length`; if `length` is at most one unit, the result is `length`.
    pub(super) fn short_length(&mut self, length: usize, direct: bool) -> usize {
        let unit = if direct { self.alignment } else { 1 };
        match length.div_ceil(unit) {
            0 | 1 => length,
            units => self.random.usize(1..units) * unit,
        }
    }

    /// Returns the number of bytes, from the start of the buffer, that a failed write leaves
    /// written. It is random, from zero to `length`, and a multiple of the alignment if `direct`.
    pub(super) fn part_of_failed_write(&mut self, length: usize, direct: bool) -> usize {
        let part = self.random.usize(..=length);
        if direct { part - part % self.alignment } else { part }
    }

    /// Returns a random index below `count`.
    pub(super) fn random_index(&mut self, count: usize) -> usize {
        self.random.usize(..count)
    }

    pub(super) fn random_seed(&mut self) -> u64 {
        self.random.u64(..)
    }
}
