//! The files of segments that are open, and the order in which they are closed.
//!
//! The first read or write that needs a file opens it. It then stays open until its descriptor is
//! needed for another file. The least recently used file is closed first. A file that is in use is
//! not closed: a file for reading is in use while anybody but its [`ReadSlot`] has a reference to
//! it, a file for writing while its [`WriteSlot`] is locked.
//!
//! # Closing a file that was written to
//!
//! If the kernel fails to write pages of the page cache, it reports that to the next sync of a file
//! that was open at the time. So a file that was written through the page cache is synced before it
//! is closed; otherwise a later sync could succeed although bytes are lost. A direct write returns
//! its own errors, and a later sync through another descriptor makes the same bytes durable.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::DerefMut;
use std::sync::{Arc, Weak};

use tailwater_io::descriptors::{Claim, DescriptorBudget, Exhausted, KeepsFilesOpen, Share};
use tailwater_io::{Create, IoMode, Purpose, ReadFile, WriteFile};

use super::cursor::Cursors;
use super::files::{ReadAccess, SegmentFiles};
use crate::patience::patiently;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Guard, Mutex};
use crate::{Error, Result};

/// If no descriptor is left, 1/RELIEF_PART of the open files are closed, but at least
/// [`RELIEF_MIN`].
const RELIEF_PART: usize = 8;
const RELIEF_MIN: usize = 16;
/// Minimum length of a list of files at which the entries of segments that no longer exist are
/// removed from it.
const PRUNED_MIN: usize = 1024;

/// The open files of a log's segments.
pub(crate) struct OpenFiles {
    pub(super) budget: DescriptorBudget,
    reading: Uses<ReadSlot>,
    writing: Uses<WriteSlot>,
    /// Open scanners of consumers that are catching up.
    pub(crate) cursors: Cursors,
}

impl OpenFiles {
    /// Creates an empty set. `read_bytes_max` bounds the memory for reads of segments, in bytes.
    pub(crate) fn new(budget: DescriptorBudget, read_bytes_max: usize) -> Arc<Self> {
        let cursors = Cursors::new(read_bytes_max, budget.capacity());
        let (reading, writing) = (Uses::default(), Uses::default());
        let files = Arc::new(Self { budget, reading, writing, cursors });
        let keeper: Weak<Self> = Arc::downgrade(&files);
        files.budget.register(keeper);
        files
    }
}

impl KeepsFilesOpen for OpenFiles {
    fn close_some(&self, _: Exhausted) -> bool {
        let count = (self.reading.count() + self.writing.count()) / RELIEF_PART;
        (0..count.max(RELIEF_MIN)).take_while(|_| self.close_one_quickly()).count() > 0
    }

    fn close_oldest(&self, share: Share) -> bool {
        match share {
            Share::Reading => {
                self.reading.close_oldest(ReadSlot::close) || self.cursors.drop_oldest()
            }
            Share::Writing => self.writing.close_oldest(WriteSlot::close),
        }
    }
}

impl OpenFiles {
    /// Closes a file without syncing it.
    fn close_one_quickly(&self) -> bool {
        self.reading.close_oldest(ReadSlot::close)
            || self.cursors.drop_oldest()
            || self.writing.close_oldest(WriteSlot::close_unless_unsynced)
    }
}

/// The order in which files were used.
#[derive(Debug)]
struct Uses<T>(Mutex<UseOrder<T>>);

#[derive(Debug)]
struct UseOrder<T> {
    /// The files, by the time of their last use.
    files: BTreeMap<u64, Weak<T>>,
    /// Number of uses so far, which is the time of the next one.
    time: u64,
    /// Length of `files` at which the entries of files that no longer exist are removed next.
    pruned_at: usize,
}

/// What has a time of its last use. The time changes while [`Uses`] is locked.
trait Used {
    fn used(&self) -> &AtomicU64;
}

impl<T> Default for Uses<T> {
    fn default() -> Self {
        // Time 0 is that of a file that was never used.
        let order = UseOrder { files: BTreeMap::new(), time: 1, pruned_at: PRUNED_MIN };
        Self(Mutex::new(order))
    }
}

impl<T: Used> Uses<T> {
    fn count(&self) -> usize {
        self.0.lock().files.len()
    }

    /// Makes a file the most recently used one.
    fn add(&self, file: &Arc<T>) {
        let mut order = self.0.lock();
        let now = order.time;
        order.time += 1;
        let before = file.used().swap(now, Ordering::Relaxed);
        order.files.remove(&before);
        order.files.insert(now, Arc::downgrade(file));
        if order.files.len() >= order.pruned_at {
            order.files.retain(|_, file| file.strong_count() > 0);
            order.pruned_at = (2 * order.files.len()).max(PRUNED_MIN);
        }
    }

    /// Calls `close` with the files, the least recently used first, until it has closed one.
    /// Returns false if it closed none.
    fn close_oldest(&self, close: impl Fn(&T) -> bool) -> bool {
        let mut after = 0;
        while let Some((time, file)) = self.next_after(after) {
            if close(&file) {
                // If the file was opened again meanwhile, its new entry stays.
                self.0.lock().files.remove(&time);
                return true;
            }
            after = time;
        }
        false
    }

    /// Returns the file that was used next after this time.
    fn next_after(&self, time: u64) -> Option<(u64, Arc<T>)> {
        let mut order = self.0.lock();
        loop {
            let (&time, file) = order.files.range(time + 1..).next()?;
            match file.upgrade() {
                Some(file) => return Some((time, file)),
                None => drop(order.files.remove(&time)),
            }
        }
    }
}

/// A segment's file for reading, if it is open.
#[derive(Debug, Default)]
pub(super) struct ReadSlot {
    open: Mutex<Option<Arc<ClaimedFile>>>,
    used: AtomicU64,
}

impl Used for ReadSlot {
    fn used(&self) -> &AtomicU64 {
        &self.used
    }
}

impl ReadSlot {
    /// Returns the file at the path that `path` returns, which is opened if it is not open.
    ///
    /// # Errors
    /// Corruption, if the file is missing; I/O errors.
    pub(super) fn open(
        self: &Arc<Self>,
        path: impl FnOnce() -> std::path::PathBuf,
        access: &mut ReadAccess<'_>,
    ) -> Result<Arc<dyn ReadFile>> {
        let SegmentFiles { storage, read_mode, open: files, .. } = access.files;
        let file = {
            let mut open = self.open.lock();
            match &mut *open {
                Some(file) => Arc::clone(file),
                none => {
                    let path = path();
                    let opened = patiently(|| storage.open(&path, *read_mode, Purpose::LogRead));
                    let file = opened.map_err(Error::on_required)?;
                    let claim = access.claim.split(1);
                    Arc::clone(none.insert(Arc::new(ClaimedFile { file, _claim: claim })))
                }
            }
        };
        files.reading.add(self);
        Ok(file)
    }

    /// Closes the file unless it is in use.
    fn close(&self) -> bool {
        let closed = {
            let Some(mut open) = self.open.try_lock() else { return false };
            // With the lock held, nobody can get another reference.
            open.take_if(|file| Arc::strong_count(file) == 1)
        };
        closed.is_some()
    }
}

/// An open file, with its descriptor's claim.
#[derive(Debug)]
struct ClaimedFile {
    // Closed before the claim is returned.
    file: Arc<dyn ReadFile>,
    _claim: Claim,
}

impl ReadFile for ClaimedFile {
    tailwater_io::forward_read_file!(
        file: read_at, read_in_batch_at, length, path, mode, alignment, next_of_waiting,
        ring_access, was_read, advise_random, resident_pages,
    );
}

/// A segment's file for writing, if it is open.
#[derive(Debug, Default)]
pub(super) struct WriteSlot {
    state: Mutex<WriteState>,
    used: AtomicU64,
}

impl Used for WriteSlot {
    fn used(&self) -> &AtomicU64 {
        &self.used
    }
}

#[derive(Debug, Default)]
struct WriteState {
    open: Option<(Box<dyn WriteFile>, Claim)>,
    /// Whether bytes were written that no sync has made durable.
    is_unsynced: bool,
    /// The error of a failed sync. A failed sync is not retried, because the kernel may have
    /// dropped the unsynced bytes, so that a later sync would succeed without them.
    failed: Option<Error>,
}

impl WriteSlot {
    /// Creates a slot with an open file.
    pub(super) fn new(files: &SegmentFiles, file: Box<dyn WriteFile>, claim: Claim) -> Arc<Self> {
        let state = WriteState { open: Some((file, claim)), ..WriteState::default() };
        let slot = Arc::new(Self { state: Mutex::new(state), used: AtomicU64::new(0) });
        files.open.writing.add(&slot);
        slot
    }

    /// Returns the open file. If it is closed, opens the file at `path`, which must have at least
    /// `length` bytes.
    ///
    /// # Errors
    /// The error of an earlier failed sync; corruption, if the file is missing or too short; I/O
    /// errors.
    pub(super) fn open(
        self: &Arc<Self>,
        files: &SegmentFiles,
        path: impl FnOnce() -> std::path::PathBuf,
        length: u64,
    ) -> Result<OpenWriteFile<'_>> {
        let state = self.state.lock();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        if state.open.is_some() {
            files.open.writing.add(self);
            return Ok(OpenWriteFile(state));
        }
        // A claim may close other files, so the slot is not locked meanwhile. Only the partition's
        // owner opens this file.
        drop(state);
        let claim = files.open.budget.claim_now(Share::Writing, 1);
        let path = path();
        let (mode, purpose) = (files.append_mode, Purpose::LogAppend);
        let opened = files.storage.create(&path, Create::Existing, mode, purpose);
        let file = opened.map_err(Error::on_required)?;
        let found = file.length()?;
        if found < length {
            let message = format!(
                "the file has {found} bytes, although {length} were written: was it replaced?"
            );
            return Err(Error::corruption(&path, found, message));
        }
        let mut state = self.state.lock();
        state.open = Some((file, claim));
        files.open.writing.add(self);
        Ok(OpenWriteFile(state))
    }

    /// Returns whether bytes were written that no sync has made durable.
    ///
    /// # Errors
    /// The error of an earlier failed sync.
    pub(super) fn is_unsynced(&self) -> Result<bool> {
        let state = self.state.lock();
        state.failed.clone().map_or(Ok(state.is_unsynced), Err)
    }

    /// Closes the file unless it is in use.
    fn close(&self) -> bool {
        let closed = {
            let Some(mut state) = self.state.try_lock() else { return false };
            if state.must_be_synced() {
                // A failure is recorded, and concerns the next use of the file.
                let _ = OpenWriteFile::make_durable_in(&mut state, |file| {
                    file.sync_data(Purpose::LogAppend)
                });
            }
            state.open.take()
        };
        closed.is_some()
    }

    /// Closes the file unless it is in use or must be synced first.
    fn close_unless_unsynced(&self) -> bool {
        let closed = {
            let Some(mut state) = self.state.try_lock() else { return false };
            if state.must_be_synced() { None } else { state.open.take() }
        };
        closed.is_some()
    }
}

impl WriteState {
    /// Whether the file must be synced before it is closed: see the module's description.
    fn must_be_synced(&self) -> bool {
        let mode = self.open.as_ref().map(|(file, _)| file.mode());
        self.is_unsynced && mode.is_some_and(|mode| mode != IoMode::Direct)
    }
}

/// A segment's open file, which is not closed while this exists.
pub(super) struct OpenWriteFile<'a>(Guard<'a, WriteState>);

impl OpenWriteFile<'_> {
    /// Writes to the file, or changes its length.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn change<T>(
        &mut self,
        is_durable: bool,
        change: impl FnOnce(&mut dyn WriteFile) -> tailwater_io::Result<T>,
    ) -> Result<T> {
        let state = self.0.deref_mut();
        let Some((file, _)) = &mut state.open else { return Err(closed()) };
        state.is_unsynced |= !is_durable;
        Ok(change(&mut **file)?)
    }

    /// Makes all written bytes durable with `call`, which syncs the file.
    ///
    /// # Errors
    /// I/O errors. A failure is final: later uses of the file return the same error.
    pub(super) fn make_durable(
        &mut self,
        call: impl FnOnce(&mut dyn WriteFile) -> tailwater_io::Result<()>,
    ) -> Result<()> {
        Self::make_durable_in(&mut self.0, call)
    }

    fn make_durable_in(
        state: &mut WriteState,
        call: impl FnOnce(&mut dyn WriteFile) -> tailwater_io::Result<()>,
    ) -> Result<()> {
        let Some((file, _)) = &mut state.open else { return Err(closed()) };
        match call(&mut **file) {
            Ok(()) => {
                state.is_unsynced = false;
                Ok(())
            }
            Err(error) => {
                let error = Error::from(error).into_final();
                state.failed = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Returns the length of the file, in bytes.
    pub(super) fn length(&self) -> Result<u64> {
        let open = self.0.open.as_ref().ok_or_else(closed)?;
        Ok(open.0.length()?)
    }

    /// Returns the alignment of direct transfers, in bytes.
    pub(super) fn alignment(&self) -> Result<u64> {
        let open = self.0.open.as_ref().ok_or_else(closed)?;
        Ok(open.0.alignment() as u64)
    }
}

fn closed() -> Error {
    Error::new(crate::ErrorKind::Internal, "a file was closed while it was used")
}

impl fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "OpenFiles({} for reading, {} for writing)",
            self.reading.count(),
            self.writing.count()
        )
    }
}
