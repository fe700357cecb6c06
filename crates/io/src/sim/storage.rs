//! The simulated storage, and the methods with which a test controls it.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};

use rustix::io::Errno;

use super::acknowledged::Overwrite;
use super::calls::{Call, Coverage, Opening, WriteCall, coverage};
use super::disk::{Disk, Effect};
use super::faults::FaultPlan;
use super::file::{SimFile, SimLock};
use super::namespace::{Change, DirectoryId, EntryName, FileId, LinkId, Node, ROOT};
use super::recording::Recording;
use super::state::{DeviceTimes, Machine, State};
use crate::clock::ManualClock;
use crate::descriptors::{DescriptorBudget, Exhausted, RELIEFS_MAX};
use crate::purpose::{IoMode, Purpose};
use crate::sections::{self, Section};
use crate::statistics::Statistics;
use crate::storage::{
    Capabilities, Create, DirectIo, DirectoryEntry, FileIdentity, FileLock, FileMetadata, ReadFile,
    Storage, WriteFile,
};
use crate::sync::Mutex;
use crate::{Error, Operation, Result};

/// Initial wall-clock time of a new disk's clock, in microseconds since 1970.
const FIRST_WALL_US: u64 = 1_700_000_000_000_000;

/// The device number that every file on a simulated disk reports.
const DEVICE: u64 = 1;

/// A simulated disk, see [the module](crate::sim).
///
/// A clone is another handle on the same disk in the same process. A file lock taken through one
/// handle also excludes the other handles. The root directory exists and is durable. Relative paths
/// are resolved in the root unless a test calls [`SimStorage::set_working_directory`].
///
/// Safe to use from any thread. If several threads make calls concurrently, the order of the calls,
/// and therefore their numbers, are not deterministic.
#[derive(Debug, Clone)]
pub struct SimStorage {
    shared: Arc<Machine>,
}

/// Methods with which tests control the disk; `super::crash` has more. These methods do not count
/// as storage calls: they get no call number, and no fault applies to them.
impl SimStorage {
    /// Creates an empty disk. The seed determines the length of short transfers, how much a failed
    /// write leaves written, and which bytes a failed sync loses.
    pub fn new(seed: u64) -> Self {
        let clock = Arc::new(ManualClock::new(FIRST_WALL_US));
        Self::with_state(State::new(Disk::default(), ROOT.0 + 1, clock, seed))
    }

    pub(super) fn with_state(state: State) -> Self {
        let statistics = Statistics::with_clock(Arc::clone(&state.clock) as Arc<_>);
        let shared = Machine { state: Mutex::new(state), statistics };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the clock from which files get their modification times. Crash images of this disk
    /// use the same clock.
    pub fn clock(&self) -> Arc<ManualClock> {
        Arc::clone(&self.state().clock)
    }

    /// Replaces the fault plan from the next call on. If a fault has cut the power, it stays cut.
    pub fn set_faults(&self, plan: FaultPlan) {
        self.state().plan = plan;
    }

    /// From now on, at most `count` files can be open at a time. If the limit is reached, or a call
    /// fails with [`Fault::NoDescriptor`](super::Fault::NoDescriptor), `budget` is asked for
    /// relief, as the budgets of a process are.
    pub fn limit_open_files(&self, count: usize, budget: &DescriptorBudget) {
        let mut state = self.state();
        state.open_files_max = count;
        state.budget = Some(budget.clone());
    }

    /// Returns the number of files that are open. A file that is open twice counts twice.
    pub fn open_files(&self) -> usize {
        self.state().open_files()
    }

    /// Returns the highest number of files that were open at the same time.
    pub fn open_files_peak(&self) -> usize {
        self.state().open_files_peak
    }

    /// Returns the number of calls that found the limit of [`Self::limit_open_files`] reached. Each
    /// repetition of a call counts.
    pub fn refused_descriptors(&self) -> u64 {
        self.state().refused_descriptors
    }

    /// From now on, refuses to open files below this directory in [`IoMode::Direct`], like a
    /// filesystem without direct I/O.
    pub fn refuse_direct(&self, directory: &Path) {
        self.state().direct_refused.push(directory.to_owned());
    }

    /// Sets the directory that relative paths are resolved in, for every handle on this disk.
    ///
    /// # Errors
    /// If there is no such directory.
    pub fn set_working_directory(&self, path: &Path) -> Result<()> {
        let changed = self.state().disk.names.set_working_directory(path);
        changed.map_err(|error| Error::new(Operation::Metadata, path, error))
    }

    /// Creates a symbolic link at `path` to `target`, which need not exist. Its name is durable
    /// after a sync of its directory.
    ///
    /// # Errors
    /// If `path` exists, or its directory does not.
    pub fn create_symbolic_link(&self, target: &Path, path: &Path) -> Result<()> {
        let mut state = self.state();
        let created = place_of(&state, path, Errno::EXIST).and_then(|place| {
            if state.disk.names.get(&place).is_some() {
                return Err(Errno::EXIST.into());
            }
            let link = LinkId(state.new_id());
            state.apply(Effect::NewLink { link, target: target.to_owned() });
            state.change_names(Change::set(place, Node::Link(link)));
            Ok(())
        });
        created.map_err(|error| Error::new(Operation::Link, path, error))
    }

    /// Sets the alignment, in bytes, that direct transfers require of files opened from now on: a
    /// power of two from 4096 to [`MAX_ALIGNMENT`](crate::buffer::MAX_ALIGNMENT).
    pub fn set_alignment(&self, alignment: usize) {
        self.state().alignment = alignment;
    }

    /// Sets the largest request that the device reports ([`Capabilities::request_bytes_max`]), in
    /// bytes. The simulation itself accepts larger requests.
    pub fn set_request_bytes_max(&self, bytes: usize) {
        self.state().request_bytes_max = Some(bytes);
    }

    /// Makes the disk report that direct writes lose data, for this reason, as they do under some
    /// kernels. The simulation itself loses nothing.
    pub fn set_direct_write_fault(&self, fault: &'static str) {
        self.state().direct_write_fault = Some(fault);
    }

    /// Sets how long writes and syncs of files take from now on. Each one advances the
    /// [clock](Self::clock) by its duration.
    pub fn set_times(&self, times: DeviceTimes) {
        self.state().times = times;
    }

    /// Returns the number of calls so far. Calls are numbered from 0, so this is also the number of
    /// the next call.
    pub fn call_count(&self) -> u64 {
        self.state().calls
    }

    /// Starts recording the calls and the journal that [`Self::replay`] needs, and drops an earlier
    /// recording. This costs a copy of the whole disk now, file contents included, and a copy of
    /// every name that changes later. Bytes written later are shared, not copied.
    pub fn start_recording(&self) {
        let mut state = self.state();
        state.recording = Some(Recording::of(state.disk.clone()));
    }

    /// Returns the calls since recording began, in order; none if recording was not started.
    pub fn calls(&self) -> Vec<Call> {
        self.state().recording.as_ref().map(|recording| recording.calls.clone()).unwrap_or_default()
    }

    /// Returns the number of calls of [`ReadFile::advise_random`] on this disk.
    pub fn advised_random(&self) -> u64 {
        self.state().advised_random
    }

    /// Returns the files opened or created since recording began, in order; none if recording was
    /// not started.
    pub fn openings(&self) -> Vec<Opening> {
        let state = self.state();
        let recording = state.recording.as_ref();
        recording.map(|recording| recording.openings.clone()).unwrap_or_default()
    }

    /// Returns the writes to files since recording began, in order; none if recording was not
    /// started. A write of several parts in one call is one write.
    pub fn writes(&self) -> Vec<WriteCall> {
        let state = self.state();
        state.recording.as_ref().map(|recording| recording.writes.clone()).unwrap_or_default()
    }

    /// Returns the number of calls of each kind since recording began.
    pub fn coverage(&self) -> Coverage {
        self.state()
            .recording
            .as_ref()
            .map(|recording| coverage(&recording.calls))
            .unwrap_or_default()
    }

    /// Declares bytes of a file as acknowledged. From now on, every write into a block of 4096
    /// bytes that contains an acknowledged byte is reported by [`Self::overwrites`]. A block stops
    /// being acknowledged when the file is truncated below it or [released](Self::release).
    ///
    /// # Errors
    /// If there is no such file.
    pub fn acknowledge(&self, path: &Path, bytes: Range<u64>) -> Result<()> {
        let mut state = self.state();
        let file = file_at(&state, path)?;
        state.acknowledged.declare(file, bytes);
        Ok(())
    }

    /// Reverts [`Self::acknowledge`] for all bytes of a file, for example because the file will be
    /// reused: [`Self::overwrites`] no longer reports writes to these bytes.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn release(&self, path: &Path) -> Result<()> {
        let mut state = self.state();
        let file = file_at(&state, path)?;
        state.acknowledged.release(file);
        Ok(())
    }

    /// Returns, in order, the writes so far that touched a block with an acknowledged byte
    /// ([`Self::acknowledge`]).
    pub fn overwrites(&self) -> Vec<Overwrite> {
        self.state().acknowledged.overwrites().to_vec()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock()
    }

    /// Makes a storage call on a path instead of an open file. Gives the call a number, applies the
    /// fault plan, and then runs `body`. An error names `path`. If no descriptor is left, asks the
    /// budget for relief, and repeats the call with another number.
    fn on_names<T>(
        &self,
        operation: Operation,
        path: &Path,
        purpose: Option<Purpose>,
        body: impl Fn(&mut State) -> io::Result<T>,
    ) -> Result<T> {
        let mut reliefs_left = RELIEFS_MAX;
        loop {
            let (made, budget) = {
                let mut state = self.state();
                let made = state
                    .begin_whole(operation, path, purpose)
                    .and_then(|()| body(&mut state))
                    .map_err(|error| Error::new(operation, path, error));
                (made, state.budget.clone())
            };
            let exhausted = made.as_ref().err().and_then(exhausted);
            let (Some(exhausted), Some(budget)) = (exhausted, budget) else { return made };
            // Files close themselves through this storage, so its state must not be locked here.
            if reliefs_left == 0 || !budget.relieve(exhausted) {
                return made;
            }
            reliefs_left -= 1;
        }
    }
}

/// Returns the limit on open files that made a call fail; `None` if it failed for another reason.
fn exhausted(error: &Error) -> Option<Exhausted> {
    match Errno::from_io_error(&error.source) {
        Some(Errno::MFILE) => Some(Exhausted::Process),
        Some(Errno::NFILE) => Some(Exhausted::System),
        _ => None,
    }
}

fn file_at(state: &State, path: &Path) -> Result<FileId> {
    state.disk.names.file(path).map_err(|error| Error::new(Operation::Metadata, path, error))
}

/// Returns the directory entry of a path, or the error `root_error` for the root, which has no
/// entry.
fn place_of(state: &State, path: &Path, root_error: Errno) -> io::Result<EntryName> {
    Ok(state.disk.names.place(path)?.ok_or(root_error)?)
}

/// Returns whether the test made direct I/O fail for this path ([`SimStorage::refuse_direct`]).
fn refuses_direct(state: &State, path: &Path) -> bool {
    let canonical = |path: &Path| {
        state.disk.names.canonical_path(path).unwrap_or_else(|_| Path::new("/").join(path))
    };
    // The file may not yet exist, so only its directory is resolved.
    let path = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => canonical(parent).join(name),
        _ => canonical(path),
    };
    state.direct_refused.iter().any(|directory| path.starts_with(canonical(directory)))
}

/// Fails if the test made direct I/O fail for this path and `mode` is direct.
fn check_open(state: &State, path: &Path, mode: IoMode) -> io::Result<()> {
    if mode == IoMode::Direct && refuses_direct(state, path) {
        let text = "the simulated filesystem refuses direct I/O (O_DIRECT); use buffered I/O there";
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    Ok(())
}

fn rename(state: &mut State, from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (place_of(state, from, Errno::BUSY)?, place_of(state, to, Errno::BUSY)?);
    let names = &state.disk.names;
    let node = names.get(&from).ok_or(Errno::NOENT)?;
    if let Node::Directory(directory) = node
        && names.is_within(to.directory, directory)
    {
        return Err(Errno::INVAL.into());
    }
    if let Some(Node::Directory(there)) = names.get(&to)
        && names.is_within(from.directory, there)
    {
        // The new name is a directory that contains the old name, so it is not empty. Linux checks
        // this first, even if the old name is a file.
        return Err(Errno::NOTEMPTY.into());
    }
    match (node, names.get(&to)) {
        // Both names refer to the same file. POSIX requires that rename then changes nothing.
        (node, Some(there)) if node == there => return Ok(()),
        (_, None) | (Node::File(_) | Node::Link(_), Some(Node::File(_) | Node::Link(_))) => {}
        (Node::File(_) | Node::Link(_), Some(Node::Directory(_))) => {
            return Err(Errno::ISDIR.into());
        }
        (Node::Directory(_), Some(Node::File(_) | Node::Link(_))) => {
            return Err(Errno::NOTDIR.into());
        }
        (Node::Directory(_), Some(Node::Directory(there))) => {
            if names.names(there).next().is_some() {
                return Err(Errno::NOTEMPTY.into());
            }
        }
    }
    state.change_names(Change::rename(from, to, node));
    Ok(())
}

fn create_directories(state: &mut State, path: &Path) -> io::Result<()> {
    match state.disk.names.node(path) {
        Ok(Node::Directory(_)) => return Ok(()),
        Ok(Node::File(_) | Node::Link(_)) => return Err(Errno::EXIST.into()),
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    if let Some(parent) = path.parent() {
        create_directories(state, parent)?;
    }
    let place = place_of(state, path, Errno::NOENT)?;
    if state.disk.names.get(&place).is_some() {
        // The entry exists but did not resolve above: it is a dangling symbolic link.
        return Err(Errno::EXIST.into());
    }
    let new = DirectoryId(state.new_id());
    state.change_names(Change::set(place, Node::Directory(new)));
    Ok(())
}

impl Storage for SimStorage {
    fn open(&self, path: &Path, mode: IoMode, purpose: Purpose) -> Result<Arc<dyn ReadFile>> {
        let _waiting = sections::enter(Section::Device);
        self.on_names(Operation::Open, path, Some(purpose), |state| {
            check_open(state, path, mode)?;
            let file = state.disk.names.file(path)?;
            let handle = SimFile::open(&self.shared, state, file, path, mode, purpose);
            Ok(Arc::new(handle) as Arc<dyn ReadFile>)
        })
    }

    fn create(
        &self,
        path: &Path,
        create: Create,
        mode: IoMode,
        purpose: Purpose,
    ) -> Result<Box<dyn WriteFile>> {
        self.on_names(Operation::Create, path, Some(purpose), |state| {
            check_open(state, path, mode)?;
            let file = match create {
                Create::Existing => state.disk.names.file(path)?,
                Create::New | Create::Truncate => {
                    state.find_or_make(path, create == Create::New)?
                }
            };
            if create == Create::Truncate && state.disk.file(file).length() > 0 {
                state.acknowledged.truncate(file, 0);
                state.apply(Effect::Truncate { file, length: 0 });
            }
            let handle = SimFile::open(&self.shared, state, file, path, mode, purpose);
            Ok(Box::new(handle) as Box<dyn WriteFile>)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.on_names(Operation::Rename, from, None, |state| rename(state, from, to))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.on_names(Operation::Remove, path, None, |state| {
            let place = place_of(state, path, Errno::ISDIR)?;
            match state.disk.names.get(&place).ok_or(Errno::NOENT)? {
                Node::File(_) | Node::Link(_) => {}
                Node::Directory(_) => return Err(Errno::ISDIR.into()),
            }
            state.change_names(Change::unset(place));
            Ok(())
        })
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        self.on_names(Operation::Remove, path, None, |state| {
            let place = place_of(state, path, Errno::BUSY)?;
            let directory = match state.disk.names.get(&place).ok_or(Errno::NOENT)? {
                Node::Directory(directory) => directory,
                Node::File(_) | Node::Link(_) => return Err(Errno::NOTDIR.into()),
            };
            if state.disk.names.names(directory).next().is_some() {
                return Err(Errno::NOTEMPTY.into());
            }
            state.change_names(Change::unset(place));
            Ok(())
        })
    }

    fn link(&self, existing: &Path, new: &Path) -> Result<()> {
        self.on_names(Operation::Link, new, None, |state| {
            let node = state.disk.names.node(existing)?;
            let place = place_of(state, new, Errno::EXIST)?;
            if state.disk.names.get(&place).is_some() {
                return Err(Errno::EXIST.into());
            }
            let Node::File(_) = node else { return Err(Errno::PERM.into()) };
            state.change_names(Change::set(place, node));
            Ok(())
        })
    }

    fn list(&self, directory: &Path) -> Result<Vec<DirectoryEntry>> {
        self.on_names(Operation::List, directory, None, |state| {
            let names = &state.disk.names;
            let there = names.directory(directory)?;
            let entry = |(name, node): (&String, &Node)| DirectoryEntry {
                name: name.clone(),
                is_directory: match node {
                    Node::File(_) => false,
                    Node::Directory(_) => true,
                    Node::Link(_) => names.directory(&directory.join(name)).is_ok(),
                },
            };
            Ok(names.names(there).map(entry).collect())
        })
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        self.on_names(Operation::CreateDirectory, path, None, |state| {
            create_directories(state, path)
        })
    }

    fn metadata(&self, path: &Path) -> Result<FileMetadata> {
        self.on_names(Operation::Metadata, path, None, |state| {
            Ok(match state.disk.names.node(path)? {
                Node::Directory(_) => FileMetadata::new(0, true, FIRST_WALL_US),
                Node::File(id) => {
                    let file = state.disk.file(id);
                    FileMetadata {
                        hard_links: Some(state.disk.names.count_names(id)),
                        ..FileMetadata::new(file.length(), false, file.modified_us)
                    }
                }
                Node::Link(_) => return Err(Errno::LOOP.into()),
            })
        })
    }

    fn identity(&self, path: &Path) -> Result<FileIdentity> {
        self.on_names(Operation::Metadata, path, None, |state| {
            let inode = match state.disk.names.node(path)? {
                Node::File(FileId(id)) | Node::Directory(DirectoryId(id)) => id,
                Node::Link(_) => return Err(Errno::LOOP.into()),
            };
            Ok(FileIdentity { device: DEVICE, inode })
        })
    }

    fn canonical_path(&self, path: &Path) -> Result<PathBuf> {
        self.on_names(Operation::Metadata, path, None, |state| {
            Ok(state.disk.names.canonical_path(path)?)
        })
    }

    fn capabilities(&self, path: &Path) -> Result<Capabilities> {
        self.on_names(Operation::Metadata, path, None, |state| {
            let direct_io = match state.disk.names.node(path)? {
                Node::Directory(_) => DirectIo::Unknown,
                Node::File(_) if refuses_direct(state, path) => DirectIo::Refused,
                Node::File(_) => DirectIo::Aligned(state.alignment as u32),
                Node::Link(_) => return Err(Errno::LOOP.into()),
            };
            let filesystem = "simulated".to_owned();
            Ok(Capabilities {
                filesystem,
                direct_io,
                direct_write_fault: state.direct_write_fault,
                request_bytes_max: state.request_bytes_max,
            })
        })
    }

    fn resident_pages(&self, path: &Path) -> Result<Option<u64>> {
        self.on_names(Operation::Metadata, path, None, |state| {
            state.disk.names.node(path)?;
            Ok(None)
        })
    }

    fn sync_directory(&self, directory: &Path) -> Result<()> {
        self.on_names(Operation::SyncDirectory, directory, None, |state| {
            let directory = state.disk.names.directory(directory)?;
            state.apply(Effect::SyncDirectory(directory));
            self.shared.statistics.record_sync(Purpose::Metadata, 0);
            Ok(())
        })
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.on_names(Operation::Lock, path, None, |state| {
            let file = state.find_or_make(path, false)?;
            let lock = SimLock::take(&self.shared, state, path, file)?;
            Ok(Box::new(lock) as Box<dyn FileLock>)
        })
    }

    fn statistics(&self) -> &Statistics {
        &self.shared.statistics
    }
}
