//! Open blob files.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};

use tailwater_format::blob::BlobIndex;
use tailwater_format::file_name::FileKind;
use tailwater_io::sync::Mutex;
use tailwater_io::{Exhausted, Purpose, Storage};

use crate::blob::BlobReader;
use crate::error::{Error, ErrorKind, Result};
use crate::io_modes::IoModes;
use crate::table::{KeepsFilesOpen, OpenBudget, OpenPermit};

/// The open blob files of a column family.
#[derive(Debug)]
pub(crate) struct BlobCache {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
    io_modes: Arc<IoModes>,
    /// Whose mode files are opened in.
    opened_for: Purpose,
    /// What files count against that a compaction opens for itself.
    budget: Option<Arc<OpenBudget>>,
    open: Arc<OpenBlobFiles>,
}

/// The blob files that are open, of all column families of a database, or of one for a compaction.
#[derive(Debug)]
pub(crate) struct OpenBlobFiles {
    /// How many are open at once; [`usize::MAX`] for as many as there are.
    capacity: AtomicUsize,
    files: Mutex<OpenFiles>,
}

#[derive(Debug, Default)]
struct OpenFiles {
    /// By their numbers.
    readers: HashMap<u64, (Arc<BlobReader>, Option<OpenPermit>)>,
    /// Their numbers, those that were opened first first.
    order: VecDeque<u64>,
}

impl OpenBlobFiles {
    /// None yet; `capacity` are kept open at most, or any number.
    pub(crate) fn new(capacity: Option<usize>) -> Self {
        Self { capacity: AtomicUsize::new(capacity.unwrap_or(usize::MAX)), files: Mutex::default() }
    }

    /// Keeps no more than so many files open from now on.
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
    /// Closes half of them. Reads under way keep theirs.
    fn close_some(&self, _: Exhausted) -> bool {
        let mut files = self.files();
        let open = files.order.len();
        files.close_down_to(|left| left <= open / 2);
        open > 0
    }
}

impl OpenFiles {
    /// Closes those that were opened first, until there are few enough.
    fn close_down_to(&mut self, is_enough: impl Fn(usize) -> bool) {
        while !is_enough(self.order.len())
            && let Some(oldest) = self.order.pop_front()
        {
            self.readers.remove(&oldest);
        }
    }
}

impl BlobCache {
    /// A cache that keeps its files open in `open`. Blob files are in `directory`.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        directory: PathBuf,
        io_modes: Arc<IoModes>,
        open: Arc<OpenBlobFiles>,
    ) -> Self {
        let opened_for = Purpose::UserBlobRead;
        Self { storage, directory, io_modes, opened_for, budget: None, open }
    }

    /// The same files for a compaction, in a cache of its own: it may read them in another mode
    /// than users do, and at low weight, so that it takes no lock that users take. What is opened
    /// counts against `budget`.
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

    /// Reads the value that a blob index of `user_key` stands for.
    pub(crate) fn read(&self, user_key: &[u8], index: &[u8], purpose: Purpose) -> Result<Vec<u8>> {
        let index = BlobIndex::decode(index).map_err(|error| {
            let message = format!("key '{}': {error}", user_key.escape_ascii());
            Error::new(ErrorKind::Corruption, message)
        })?;
        match index {
            BlobIndex::Inlined { .. } => Err(Error::not_supported("values that expire")),
            BlobIndex::Blob(location) => {
                self.open(location.file_number, purpose)?.read(user_key, &location, purpose)
            }
        }
    }

    /// The reader of a blob file, opened if it is not yet.
    pub(crate) fn open(&self, number: u64, purpose: Purpose) -> Result<Arc<BlobReader>> {
        if let Some((reader, _)) = self.open.files().readers.get(&number) {
            return Ok(Arc::clone(reader));
        }
        let permit = self.budget.as_ref().map(OpenBudget::take);
        let path = self.directory.join(FileKind::Blob(number).to_string());
        let mode = self.io_modes.mode(self.opened_for, &self.directory);
        let file = self.storage.open(&path, mode, purpose)?;
        let reader = Arc::new(BlobReader::open(file, purpose)?);
        let mut open = self.open.files();
        if open.readers.insert(number, (Arc::clone(&reader), permit)).is_none() {
            open.order.push_back(number);
        }
        // Reads under way keep a file that is closed here.
        let capacity = self.open.capacity();
        let has_room = || self.budget.as_ref().is_none_or(|budget| budget.has_room());
        open.close_down_to(|files| files <= capacity && (files <= 1 || has_room()));
        Ok(reader)
    }
}
