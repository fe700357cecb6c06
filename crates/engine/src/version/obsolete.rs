//! Removes files that the database no longer needs, while the database is open.
//!
//! A table or blob file that is no longer in the current version may be in older versions, which
//! reads and checkpoints still use. Such a file is put on a list, together with a reference to the
//! object that all versions with the file share. When that reference is the only one left, the file
//! is closed and removed.
//!
//! Removing a large file takes milliseconds, during which other threads wait for the filesystem's
//! journal. So a dedicated thread removes one file of the list at a time, and after each removal
//! pauses several times as long as the removal took.
//!
//! Nobody reads an unneeded log, MANIFEST or OPTIONS file. The thread that made it unneeded removes
//! it ([`ObsoleteFiles::remove`]).
//!
//! How a file is removed, at once or slowly, is decided by [`TrackedFiles`].
//!
//! While removals are paused, unneeded files of all kinds are kept on the list.

use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tailwater_format::version_edit::BlobFileAddition;
use tailwater_io::Clock;
use tailwater_io::sync::{Condvar, Mutex};

use super::Retired;
use crate::blob::{BlobCache, OpenBlobFiles};
use crate::block_cache::BlockCache;
use crate::error::Result;
use crate::sst_file_manager::TrackedFiles;
use crate::stats::InfoLog;
use crate::table::{FileMetadata, TableCache};

/// Length of the pause after the removal of a file, as a multiple of the time that the removal
/// took.
const REST: u32 = 4;
/// Maximum length of the pause after the removal of a file.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// A file that the database no longer needs, but that reads may still use.
#[derive(Debug)]
struct ObsoleteFile {
    path: PathBuf,
    readers: Readers,
}

/// Who may still use an obsolete file, and which caches know the file.
#[derive(Debug)]
enum Readers {
    /// The versions that contain the table. The cache may hold blocks of the table.
    OfTable { file: Arc<FileMetadata>, block_cache: Option<Arc<BlockCache>> },
    /// The versions that contain the blob file. `open` may keep the file open.
    OfBlobFile { added: Arc<BlobFileAddition>, open: Arc<OpenBlobFiles> },
    /// Nobody: the file is a log, a MANIFEST or an OPTIONS file.
    None,
}

impl ObsoleteFile {
    /// Whether nobody uses the file any more.
    fn is_unread(&self) -> bool {
        match &self.readers {
            Readers::OfTable { file, .. } => file.is_last(),
            Readers::OfBlobFile { added, .. } => Arc::strong_count(added) == 1,
            Readers::None => true,
        }
    }

    /// Removes the file from the caches.
    fn leave_caches(&self) {
        match &self.readers {
            Readers::OfTable { file, block_cache: Some(block_cache) } => {
                block_cache.erase_file(file.cache_id());
            }
            Readers::OfBlobFile { added, open } => open.close(added.number),
            Readers::OfTable { block_cache: None, .. } | Readers::None => {}
        }
    }
}

/// The files that the database no longer needs, and that have not been removed yet.
pub(crate) struct ObsoleteFiles {
    files: Arc<TrackedFiles>,
    info_log: Arc<InfoLog>,
    list: Mutex<List>,
    /// Signalled when a removal has ended.
    removed: Condvar,
}

#[derive(Default)]
struct List {
    files: Vec<ObsoleteFile>,
    /// Number of files that are being removed.
    removals: usize,
    /// Number of calls of [`ObsoleteFiles::pause`] not yet ended by [`ObsoleteFiles::end_pause`].
    pauses: usize,
    /// Whether the database was closed. Another opening of it may then use the directory.
    is_closed: bool,
}

impl List {
    /// Whether no file may be removed.
    fn is_kept(&self) -> bool {
        self.pauses > 0 || self.is_closed
    }
}

impl ObsoleteFiles {
    /// Creates an empty list.
    pub(crate) fn new(files: Arc<TrackedFiles>, info_log: Arc<InfoLog>) -> Self {
        Self { files, info_log, list: Mutex::default(), removed: Condvar::default() }
    }

    /// Adds tables and blob files of a column family that are no longer in its current version. The
    /// cleaning job must be notified afterwards.
    pub(super) fn add(&self, retired: Retired, tables: &TableCache, blobs: &BlobCache) {
        let block_cache = &tables.context().block_cache;
        let tables = retired.tables.into_iter().map(|file| ObsoleteFile {
            path: tables.path(&file),
            readers: Readers::OfTable { file, block_cache: block_cache.clone() },
        });
        let blob_files = retired.blob_files.into_iter().map(|added| ObsoleteFile {
            path: blobs.path(added.number),
            readers: Readers::OfBlobFile { added, open: Arc::clone(blobs.open_files()) },
        });
        self.list().files.extend(tables.chain(blob_files));
    }

    /// Removes the files on the list that nobody uses. After each removal, calls `rest` with the
    /// length of the pause.
    pub(crate) fn remove_unread(&self, clock: &dyn Clock, rest: impl Fn(Duration)) {
        while let Some(file) = self.next() {
            let start_ns = clock.monotonic_ns();
            self.remove_listed(&file);
            let took = Duration::from_nanos(clock.since_ns(start_ns));
            rest((took * REST).min(LONGEST_REST));
        }
    }

    /// Like [`ObsoleteFiles::remove_unread`], but without pauses between removals.
    pub(crate) fn remove_unread_at_once(&self) {
        while let Some(file) = self.next() {
            self.remove_listed(&file);
        }
    }

    /// Removes a new table that will not be installed. If that fails, the next open removes it.
    pub(crate) fn remove_new(&self, tables: &TableCache, file: &FileMetadata) -> Result<()> {
        if let Some(block_cache) = &tables.context().block_cache {
            block_cache.erase_file(file.cache_id());
        }
        Ok(self.files.remove(&tables.path(file))?)
    }

    /// Removes a log, MANIFEST or OPTIONS file that is no longer needed. While removals are paused,
    /// puts the file on the list instead. A failure is only logged: the next open removes the file.
    pub(crate) fn remove(&self, path: PathBuf) {
        let mut list = self.list();
        if list.is_kept() {
            list.files.push(ObsoleteFile { path, readers: Readers::None });
            return;
        }
        list.removals += 1;
        drop(list);
        self.remove_file(&path);
    }

    /// Stops the removal of files until [`ObsoleteFiles::end_pause`] was called as often as this
    /// function. Waits for removals that have begun.
    pub(crate) fn pause(&self) {
        let mut list = self.list();
        list.pauses += 1;
        while list.removals > 0 {
            list = self.removed.wait(list);
        }
    }

    /// Ends a pause. Returns whether removals continue, because no other pause goes on. The
    /// cleaning job must be notified then.
    pub(crate) fn end_pause(&self) -> bool {
        let mut list = self.list();
        list.pauses = list.pauses.saturating_sub(1);
        list.pauses == 0
    }

    /// Ends the removal of files, because the database is closed. The next opening removes the
    /// files that are left.
    pub(crate) fn close(&self) {
        self.list().is_closed = true;
    }

    /// Whether removals are paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.list().pauses > 0
    }

    /// Returns the number of files on the list.
    pub(crate) fn count(&self) -> usize {
        self.list().files.len()
    }

    /// Returns the paths of the tables on the list, and their lengths in bytes.
    pub(crate) fn tables(&self) -> Vec<(PathBuf, u64)> {
        let list = self.list();
        let tables = list.files.iter().filter_map(|obsolete| match &obsolete.readers {
            Readers::OfTable { file, .. } => Some((obsolete.path.clone(), file.size())),
            _ => None,
        });
        tables.collect()
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock()
    }

    /// Removes from the list a file that nobody uses, and returns it. Returns `None` if there is
    /// none, or no file may be removed.
    fn next(&self) -> Option<ObsoleteFile> {
        let mut list = self.list();
        if list.is_kept() {
            return None;
        }
        let at = list.files.iter().position(ObsoleteFile::is_unread)?;
        list.removals += 1;
        Some(list.files.swap_remove(at))
    }

    fn remove_listed(&self, file: &ObsoleteFile) {
        file.leave_caches();
        self.remove_file(&file.path);
    }

    /// Removes a file that was counted in [`List::removals`].
    fn remove_file(&self, path: &Path) {
        let removed = self.files.remove(path);
        self.list().removals -= 1;
        self.removed.notify_all();
        match removed {
            Err(error) if !error.is_not_found() => {
                self.info_log.warn(format_args!("cannot remove an obsolete file: {error}"));
            }
            _ => {}
        }
    }
}
