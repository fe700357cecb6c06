//! The open blob files of a column family.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};

use tailwater_format::blob::BlobIndex;
use tailwater_format::file_name::FileKind;
use tailwater_io::sync::Mutex;
use tailwater_io::{Purpose, Storage};

use crate::blob::BlobReader;
use crate::io_modes::IoModes;
use crate::table::{OpenBudget, OpenPermit};
use crate::{Error, ErrorKind, Result};

/// The open blob files of a column family.
#[derive(Debug)]
pub(crate) struct BlobCache {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
    io_modes: Arc<IoModes>,
    /// Whose mode files are opened in.
    opened_for: Purpose,
    /// How many files are open at once; [`usize::MAX`] for as many as there are.
    capacity: AtomicUsize,
    /// What files count against that a compaction opens for itself.
    budget: Option<Arc<OpenBudget>>,
    open: Mutex<OpenFiles>,
}

#[derive(Debug, Default)]
struct OpenFiles {
    readers: HashMap<u64, (Arc<BlobReader>, Option<OpenPermit>)>,
    /// Their numbers, those that were opened first first.
    order: VecDeque<u64>,
}

impl BlobCache {
    /// A cache that has no file open, and will keep at most `capacity` open. Blob files are in
    /// `directory`.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        directory: PathBuf,
        io_modes: Arc<IoModes>,
        capacity: Option<usize>,
    ) -> Self {
        let capacity = AtomicUsize::new(capacity.unwrap_or(usize::MAX));
        let (opened_for, open) = (Purpose::UserBlobRead, Mutex::default());
        Self { storage, directory, io_modes, opened_for, capacity, budget: None, open }
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
            capacity: AtomicUsize::new(self.capacity.load(Ordering::Relaxed)),
            budget: Some(Arc::clone(budget)),
            open: Mutex::default(),
        })
    }

    /// Keeps so many files open from the next one on that is opened.
    pub(crate) fn set_capacity(&self, capacity: Option<usize>) {
        self.capacity.store(capacity.unwrap_or(usize::MAX), Ordering::Relaxed);
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
        if let Some((reader, _)) = self.files().readers.get(&number) {
            return Ok(Arc::clone(reader));
        }
        let permit = self.budget.as_ref().map(OpenBudget::take);
        let path = self.directory.join(FileKind::Blob(number).to_string());
        let mode = self.io_modes.mode(self.opened_for, &self.directory);
        let file = self.storage.open(&path, mode, purpose)?;
        let reader = Arc::new(BlobReader::open(file, purpose)?);
        let mut open = self.files();
        if open.readers.insert(number, (Arc::clone(&reader), permit)).is_none() {
            open.order.push_back(number);
        }
        // Reads under way keep a file that is closed here.
        let capacity = self.capacity.load(Ordering::Relaxed).max(1);
        let is_short = || self.budget.as_ref().is_some_and(|budget| !budget.has_room());
        let is_full = |files: usize| files > capacity || (files > 1 && is_short());
        while is_full(open.order.len())
            && let Some(oldest) = open.order.pop_front()
        {
            open.readers.remove(&oldest);
        }
        Ok(reader)
    }

    fn files(&self) -> MutexGuard<'_, OpenFiles> {
        self.open.lock()
    }
}
