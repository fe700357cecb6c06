//! The queue of files to be removed slowly, and the removal of one file in parts.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use tailwater_io::{Create, Error, IoMode, Operation, Purpose, Result, Storage};

use crate::stats::{InfoLog, Statistics, Ticker};

/// The trash files that are not removed yet.
#[derive(Debug, Default)]
pub(super) struct TrashQueue {
    /// The files, in the order in which they are removed. The file that is being removed is not in
    /// the queue.
    queue: VecDeque<TrashFile>,
    /// Number of files that are not removed yet, the one that is being removed included, by the
    /// number of the opening of their database.
    pending: BTreeMap<u64, usize>,
    /// The size of the files that are not removed yet.
    bytes: u64,
    /// Whether the thread that removes the files must end.
    is_closed: bool,
}

/// A file that was renamed and is to be removed.
#[derive(Debug)]
pub(super) struct TrashFile {
    pub(super) path: PathBuf,
    /// The size that counts as trash until it is removed.
    pub(super) bytes: u64,
    pub(super) owner: Arc<Owner>,
}

/// The opening of the database to which trash belongs.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    /// Identifies the opening among those of its manager.
    pub(super) opening: u64,
    pub(super) storage: Arc<dyn Storage>,
    /// The LOG of the database, while it is open.
    pub(super) info_log: Weak<InfoLog>,
    pub(super) statistics: Option<Arc<Statistics>>,
}

impl Owner {
    pub(super) fn count(&self, ticker: Ticker) {
        if let Some(statistics) = &self.statistics {
            statistics.add(ticker, 1);
        }
    }
}

/// A step of the removal of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RemovedPart {
    pub(super) bytes: u64,
    /// Whether nothing of the file is left.
    pub(super) is_last: bool,
}

impl TrashQueue {
    /// Returns the size of the trash, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether all trash is removed.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether all trash of one opening of a database is removed.
    pub(super) fn is_empty_of(&self, opening: u64) -> bool {
        !self.pending.contains_key(&opening)
    }

    /// Whether a file waits for its removal.
    pub(super) fn has_next(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether the thread that removes the files must end.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Adds a file.
    pub(super) fn push(&mut self, file: TrashFile) {
        *self.pending.entry(file.owner.opening).or_default() += 1;
        self.bytes += file.bytes;
        self.queue.push_back(file);
    }

    /// Takes the next file, unless the thread must end. Each file must be given back
    /// ([`Self::put_back`]) or ended ([`Self::end`]).
    pub(super) fn take(&mut self) -> Option<TrashFile> {
        if self.is_closed { None } else { self.queue.pop_front() }
    }

    /// Returns a file whose removal goes on to the front of the queue.
    pub(super) fn put_back(&mut self, file: TrashFile) {
        self.queue.push_front(file);
    }

    /// Notes that `bytes` of a file were removed. The file then counts that much less.
    pub(super) fn count_removed(&mut self, file: &mut TrashFile, bytes: u64) {
        let counted = bytes.min(file.bytes);
        file.bytes -= counted;
        self.bytes -= counted;
    }

    /// Ends the removal of a file.
    pub(super) fn end(&mut self, file: &TrashFile) {
        self.bytes -= file.bytes;
        let opening = file.owner.opening;
        if let Some(pending) = self.pending.get_mut(&opening) {
            *pending -= 1;
            if *pending == 0 {
                self.pending.remove(&opening);
            }
        }
    }
}

impl TrashFile {
    /// Removes the last `chunk_max` bytes of the file if it is longer, and the whole file
    /// otherwise. Removes the whole file also if `chunk_max` is 0, or if the file may have another
    /// name.
    ///
    /// # Errors
    /// Storage errors, also if the file does not exist.
    pub(super) fn remove_part(&self, chunk_max: u64) -> Result<RemovedPart> {
        let storage = &*self.owner.storage;
        let found = storage.metadata(&self.path)?;
        let is_large = chunk_max > 0 && found.length > chunk_max;
        if is_large && found.hard_links == Some(1) && self.cut(found.length - chunk_max).is_ok() {
            return Ok(RemovedPart { bytes: chunk_max, is_last: false });
        }
        storage.remove(&self.path)?;
        // A crash here is safe: the next opening removes the trash file that returns. So the sync
        // may fail. It makes the filesystem free the blocks now, and not together with others.
        let _ = self.path.parent().map(|directory| storage.sync_directory(directory));
        Ok(RemovedPart { bytes: found.length, is_last: true })
    }

    /// Sets the length of the file, durably. Fails for a symbolic link, since its target is another
    /// file that may be in use.
    fn cut(&self, length: u64) -> Result<()> {
        let storage = &*self.owner.storage;
        if is_symbolic_link(storage, &self.path)? {
            let refused = std::io::Error::from(std::io::ErrorKind::Unsupported);
            return Err(Error::new(Operation::Truncate, &self.path, refused));
        }
        let (create, mode) = (Create::Existing, IoMode::Buffered);
        let mut file = storage.create(&self.path, create, mode, Purpose::Metadata)?;
        file.truncate(length)?;
        file.sync_all(Purpose::Metadata)
    }
}

/// Whether a path names a symbolic link. Links in its directory's path do not count.
fn is_symbolic_link(storage: &dyn Storage, path: &Path) -> Result<bool> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return Ok(true) };
    Ok(storage.canonical_path(path)? != storage.canonical_path(directory)?.join(name))
}
