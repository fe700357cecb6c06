//! Caches of open blob files.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};

use tailwater_format::blob::{BlobIndex, BlobLocation};
use tailwater_format::file_name::FileKind;
use tailwater_io::descriptors::{Exhausted, KeepsFilesOpen};
use tailwater_io::in_flight::ReadsInFlight;
use tailwater_io::sync::Mutex;
use tailwater_io::{Purpose, Storage};

use crate::blob::reader::BlobRecord;
use crate::blob::{BlobReader, PackedValue};
use crate::error::{Error, ErrorKind, Result};
use crate::io_modes::IoModes;
use crate::table::{OpenBudget, OpenPermit};

/// The open blob files of a column family.
#[derive(Debug)]
pub(crate) struct BlobCache {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
    io_modes: Arc<IoModes>,
    /// The purpose for which files are opened. It determines their I/O mode.
    opened_for: Purpose,
    /// The budget of file descriptors for files that compactions open. `None` if users' reads share
    /// this cache.
    budget: Option<Arc<OpenBudget>>,
    open: Arc<OpenBlobFiles>,
}

/// The open blob files of all column families of a database, or of one column family during a
/// compaction.
#[derive(Debug)]
pub(crate) struct OpenBlobFiles {
    /// Maximum number of open files; [`usize::MAX`] for no limit.
    capacity: AtomicUsize,
    files: Mutex<OpenFiles>,
}

#[derive(Debug, Default)]
struct OpenFiles {
    /// The open files, by number.
    readers: HashMap<u64, (Arc<BlobReader>, Option<OpenPermit>)>,
    /// The numbers of the open files, in the order in which they were opened.
    order: VecDeque<u64>,
}

impl OpenBlobFiles {
    /// Creates a cache of at most `capacity` open files; with `None`, of any number.
    pub(crate) fn new(capacity: Option<usize>) -> Self {
        Self { capacity: AtomicUsize::new(capacity.unwrap_or(usize::MAX)), files: Mutex::default() }
    }

    /// Closes a file that is to be removed, if it is open. Nobody may be reading it.
    pub(crate) fn close(&self, number: u64) {
        let mut files = self.files();
        if files.readers.remove(&number).is_some() {
            files.order.retain(|&open| open != number);
        }
    }

    /// Sets the maximum number of open files; `None` for no limit.
    pub(crate) fn set_capacity(&self, capacity: Option<usize>) {
        self.capacity.store(capacity.unwrap_or(usize::MAX), Ordering::Relaxed);
        self.files().close_down_to(|files| files <= self.capacity());
    }

    fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed).max(1)
    }

    fn files(&self) -> MutexGuard<'_, OpenFiles> {
        self.files.lock()
    }
}

impl KeepsFilesOpen for OpenBlobFiles {
    /// Closes half of the files, to free descriptors. A read in progress keeps its file open until
    /// it ends.
    fn close_some(&self, _: Exhausted) -> bool {
        let mut files = self.files();
        let open = files.order.len();
        files.close_down_to(|left| left <= open / 2);
        open > 0
    }
}

impl OpenFiles {
    /// Closes files in the order in which they were opened, until `is_enough` accepts the number of
    /// open files.
    fn close_down_to(&mut self, is_enough: impl Fn(usize) -> bool) {
        while !is_enough(self.order.len())
            && let Some(oldest) = self.order.pop_front()
        {
            self.readers.remove(&oldest);
        }
    }
}

impl BlobCache {
    /// Creates a cache that keeps its open files in `open`. Blob files are in `directory`.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        directory: PathBuf,
        io_modes: Arc<IoModes>,
        open: Arc<OpenBlobFiles>,
    ) -> Self {
        let opened_for = Purpose::UserBlobRead;
        Self { storage, directory, io_modes, opened_for, budget: None, open }
    }

    /// Returns a separate cache of the same blob files for a compaction. A compaction needs its own
    /// cache because it may read in another I/O mode than users do, and because at low priority it
    /// must not take locks that users take. The files that it opens count against `budget`.
    pub(crate) fn for_compaction(&self, budget: &Arc<OpenBudget>) -> Arc<Self> {
        Arc::new(Self {
            storage: Arc::clone(&self.storage),
            directory: self.directory.clone(),
            io_modes: Arc::clone(&self.io_modes),
            opened_for: Purpose::CompactionBlobRead,
            budget: Some(Arc::clone(budget)),
            open: Arc::new(OpenBlobFiles::new(Some(self.open.capacity()))),
        })
    }

    /// Returns the path of a blob file.
    pub(crate) fn path(&self, number: u64) -> PathBuf {
        self.directory.join(FileKind::Blob(number).to_string())
    }

    /// Returns the open files of all column families that share this cache's limit of open files.
    pub(crate) fn open_files(&self) -> &Arc<OpenBlobFiles> {
        &self.open
    }

    /// Reads the value of `user_key`. `index` is the encoded blob index, which gives the value's
    /// location.
    pub(crate) fn read(&self, user_key: &[u8], index: &[u8], purpose: Purpose) -> Result<Vec<u8>> {
        self.record(user_key, location_of(user_key, index)?, purpose)?.read(purpose)
    }

    /// Reads the values of several keys, each given with its encoded blob index, together. Stops
    /// before the first value, other than the first of all, whose record
    ///
    /// - does not fit into the memory of `in_flight` together with those before it,
    /// - is in one more file than may be open, or
    /// - cannot be found, for example because there is no descriptor for its file beside those of
    ///   the records before it.
    ///
    /// Returns the results in order.
    pub(crate) fn read_together<'k>(
        &self,
        wanted: impl Iterator<Item = (&'k [u8], &'k [u8])>,
        in_flight: &ReadsInFlight,
        purpose: Purpose,
    ) -> VecDeque<Result<PackedValue>> {
        let mut room = Room::new(in_flight.buffers().limit() as u64, self.open_max());
        let mut records = Vec::new();
        for (user_key, index) in wanted {
            let record = match location_of(user_key, index) {
                Ok(location) if !room.add(&location) => break,
                Ok(location) => self.record(user_key, location, purpose),
                Err(error) => Err(error),
            };
            match record {
                Ok(record) => records.push(record),
                Err(error) if records.is_empty() => return VecDeque::from([Err(error)]),
                // The next call begins with this value.
                Err(_) => break,
            }
        }
        let spans: Vec<_> = records.iter().map(BlobRecord::span).collect();
        let mut values: VecDeque<_> = records.iter().map(|_| None).collect();
        in_flight.read_together(&spans, purpose, |at, read| {
            let value = read.map_err(Error::from).and_then(|bytes| records[at].packed_value(bytes));
            values[at] = Some(value);
        });
        let read = |value: Option<_>| value.unwrap_or_else(|| unreachable!("each span is read"));
        values.into_iter().map(read).collect()
    }

    /// Returns the record of `user_key` at a location.
    fn record<'k>(
        &self,
        user_key: &'k [u8],
        location: BlobLocation,
        purpose: Purpose,
    ) -> Result<BlobRecord<'k>> {
        self.open(location.file_number, purpose)?.record(user_key, location)
    }

    /// Returns the maximum number of open files.
    pub(crate) fn open_max(&self) -> usize {
        self.open.capacity()
    }

    /// Returns the reader of a blob file, opening it if needed.
    pub(crate) fn open(&self, number: u64, purpose: Purpose) -> Result<Arc<BlobReader>> {
        if let Some((reader, _)) = self.open.files().readers.get(&number) {
            return Ok(Arc::clone(reader));
        }
        let permit = self.budget.as_ref().map(OpenBudget::take);
        let path = self.path(number);
        let mode = self.io_modes.mode(self.opened_for, &self.directory);
        let file = self.storage.open(&path, mode, purpose)?;
        let reader = Arc::new(BlobReader::open(file, purpose)?);
        let mut open = self.open.files();
        if open.readers.insert(number, (Arc::clone(&reader), permit)).is_none() {
            open.order.push_back(number);
        }
        // Closes files until their number is at most the capacity and the budget has room. A file
        // that a read is using stays open until the read ends.
        let capacity = self.open.capacity();
        let has_room = || self.budget.as_ref().is_none_or(|budget| budget.has_room());
        open.close_down_to(|files| files <= capacity && (files <= 1 || has_room()));
        Ok(reader)
    }
}

/// What the records that are read together may use: the first one anything, those after it only
/// what the ones before leave.
struct Room {
    bytes_left: u64,
    files_max: usize,
    /// The numbers of the files with the records so far.
    files: Vec<u64>,
}

impl Room {
    fn new(bytes: u64, files_max: usize) -> Self {
        Self { bytes_left: bytes, files_max, files: Vec::new() }
    }

    /// Adds a record; returns whether there is room for it.
    fn add(&mut self, location: &BlobLocation) -> bool {
        let is_first = self.files.is_empty();
        let is_open = self.files.contains(&location.file_number);
        let has_room =
            location.size <= self.bytes_left && (is_open || self.files.len() < self.files_max);
        if !is_open {
            self.files.push(location.file_number);
        }
        self.bytes_left = self.bytes_left.saturating_sub(location.size);
        is_first || has_room
    }
}

/// Returns the location that an encoded blob index gives.
fn location_of(user_key: &[u8], index: &[u8]) -> Result<BlobLocation> {
    let index = BlobIndex::decode(index).map_err(|error| {
        let message = format!("key '{}': {error}", user_key.escape_ascii());
        Error::new(ErrorKind::Corruption, message)
    })?;
    match index {
        BlobIndex::Inlined { .. } => Err(Error::not_supported("values that expire")),
        BlobIndex::Blob(location) => Ok(location),
    }
}

#[cfg(test)]
mod tests;
