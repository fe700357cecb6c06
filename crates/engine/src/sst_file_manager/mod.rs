//! Tracks the tables and blob files of any number of databases, limits their size, and removes
//! obsolete files slowly.
//!
//! An [`SstFileManager`] belongs to the user, who shares it between databases. Each open database
//! has a [`TrackedFiles`], through which it adds and removes files.
//!
//! # Removing slowly
//!
//! Removing a large file makes the filesystem free many blocks at once, and the device discard
//! them, which delays other requests. If a deletion rate is set, an obsolete file is renamed to a
//! *trash* file, and one thread of the manager removes the trash at that rate:
//!
//! 1. The file is renamed in its directory ([`FileKind::Trash`]). A name that is taken is not used,
//!    since the rename would replace that file.
//! 2. The thread cuts the file by one chunk at its end, syncs it, and pauses as long as the rate
//!    requires. The last chunk is removed with the file, and the directory is synced.
//!
//! A file is cut only if it has one name. A checkpoint, or an ingestion, gives a second name to a
//! file that is a part of the database, by its usual name. After step 1 no such link can be made,
//! and the links are counted after step 1, so a file with one name is nobody else's. Nor is a file
//! cut through a symbolic link.
//!
//! # Invariants
//!
//! - A file in the trash is in no version, and no read of the database that put it there uses it.
//!   Readers that opened the database only for reading may use it, in this process or in another:
//!   the database does not know of them.
//! - The total size is the sum of the sizes of the tracked files. Trash files are tracked; logs are
//!   not, but count as trash.
//! - A lock is never held while a file is accessed, except the one that makes the choice of a trash
//!   name and the rename one step.
//!
//! # A crash
//!
//! Before the rename is durable, the file may return under its old name, and it may be shorter. It
//! is a leftover file then, like any obsolete file. After the rename, it is a trash file. The next
//! opening removes both ([`crate::recovery`]).
//!
//! Source: `file/sst_file_manager_impl.cc`, `file/delete_scheduler.cc`.
//!
//! [`FileKind::Trash`]: tailwater_format::file_name::FileKind::Trash

mod emptying;
mod space;
#[cfg(test)]
mod tests;
mod tracked_files;
mod trash;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use tailwater_io::Clock;
use tailwater_io::clock::SystemClock;
use tailwater_io::sync::{Condvar, Mutex};
use tailwater_io::thread::Thread;

use space::Space;
pub(crate) use tracked_files::TrackedFiles;
use trash::TrashQueue;

/// Default of [`SstFileManager::set_max_trash_db_ratio`].
const MAX_TRASH_DB_RATIO: f64 = 0.25;
/// Default of [`SstFileManager::with_bytes_max_delete_chunk`]: 64 MiB.
const BYTES_MAX_DELETE_CHUNK: u64 = 64 << 20;

/// Tracks the tables and blob files of the databases that share it, limits their total size, and
/// removes obsolete files slowly. RocksDB's class of the same name.
///
/// Set it with [`OpenOptions::set_sst_file_manager`](crate::OpenOptions::set_sst_file_manager). All
/// its methods are safe to call from any thread, and take effect while databases are open. With the
/// defaults, it only counts.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// use std::sync::Arc;
/// use tailwater::{Db, OpenOptions, SstFileManager};
///
/// let manager = Arc::new(SstFileManager::new());
/// manager.set_max_allowed_space_usage(100 << 30); // 100 GiB for both databases
/// manager.set_delete_rate_bytes_per_second(64 << 20); // 64 MiB per second
/// let mut options = OpenOptions::default();
/// options.create_if_missing(true);
/// options.set_sst_file_manager(Arc::clone(&manager));
/// let users = Db::open(directory.join("users"), &options)?;
/// let events = Db::open(directory.join("events"), &options)?;
///
/// users.put("key", "value")?;
/// users.flush_all()?;
/// assert!(manager.total_size() > 0 && !manager.is_max_allowed_space_reached());
/// # drop((users, events));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SstFileManager {
    shared: Arc<Shared>,
    /// The thread that empties the trash; `None` until there is trash.
    emptying: Mutex<Option<Thread>>,
}

/// The state that the manager shares with its thread.
#[derive(Debug)]
struct Shared {
    space: Mutex<Space>,
    trash: Mutex<TrashQueue>,
    /// Notified when the trash, or the rate at which it is removed, changes.
    changed: Condvar,
    /// Held while a trash name is chosen and a file gets it.
    naming: Mutex<()>,
    /// In bytes per second. If it is not positive, files are removed at once.
    delete_rate: AtomicI64,
    /// The bits of an `f64`.
    max_trash_db_ratio: AtomicU64,
    bytes_max_delete_chunk: AtomicU64,
    clock: Arc<dyn Clock>,
}

impl Default for SstFileManager {
    fn default() -> Self {
        Self::new()
    }
}

impl SstFileManager {
    /// Creates a manager with RocksDB's defaults: no limit of space; files are removed at once.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// Like [`SstFileManager::new`], with another clock by which the deletion rate is kept.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let shared = Shared {
            space: Mutex::default(),
            trash: Mutex::default(),
            changed: Condvar::new(),
            naming: Mutex::default(),
            delete_rate: AtomicI64::new(0),
            max_trash_db_ratio: AtomicU64::new(MAX_TRASH_DB_RATIO.to_bits()),
            bytes_max_delete_chunk: AtomicU64::new(BYTES_MAX_DELETE_CHUNK),
            clock,
        };
        Self { shared: Arc::new(shared), emptying: Mutex::new(None) }
    }

    /// Sets how many bytes of a large trash file are removed in one step; with 0, files are removed
    /// whole. Default: 64 MiB.
    ///
    /// A file is not cut while it has another name, as after a checkpoint. If a database is also
    /// open for reading ([`Db::open_read_only`](crate::Db::open_read_only)), in this or another
    /// process, its reads of an obsolete file fail once the file is cut; with 0, they do not.
    #[must_use]
    pub fn with_bytes_max_delete_chunk(self, bytes: u64) -> Self {
        self.shared.bytes_max_delete_chunk.store(bytes, Relaxed);
        self
    }

    /// Sets the maximum total size of tables and blob files, in bytes; 0, the default, means no
    /// limit.
    ///
    /// A database whose flush or compaction reaches the limit refuses writes with
    /// [`ErrorKind::SpaceLimit`](crate::ErrorKind::SpaceLimit), and resumes by itself when the
    /// total size is below the limit again. A compaction that could exceed the limit is not
    /// started.
    pub fn set_max_allowed_space_usage(&self, bytes: u64) {
        self.shared.space.lock().set_max_allowed(bytes);
    }

    /// Sets how many bytes below the limit a compaction must leave, even while its inputs and its
    /// outputs exist. Default: 0.
    pub fn set_compaction_buffer_size(&self, bytes: u64) {
        self.shared.space.lock().set_compaction_buffer(bytes);
    }

    /// Whether the total size has reached the limit.
    pub fn is_max_allowed_space_reached(&self) -> bool {
        self.shared.space.lock().is_reached()
    }

    /// Whether the total size, with the estimated size of the outputs of running compactions, has
    /// reached the limit.
    pub fn is_max_allowed_space_reached_including_compactions(&self) -> bool {
        self.shared.space.lock().is_reached_including_compactions()
    }

    /// Returns the total size of the tracked files, in bytes.
    pub fn total_size(&self) -> u64 {
        self.shared.space.lock().total()
    }

    /// Returns the tracked files, and their sizes in bytes.
    pub fn tracked_files(&self) -> HashMap<PathBuf, u64> {
        self.shared.space.lock().files().map(|(path, bytes)| (path.to_owned(), bytes)).collect()
    }

    /// Returns the deletion rate, in bytes per second.
    pub fn delete_rate_bytes_per_second(&self) -> i64 {
        self.shared.delete_rate.load(Relaxed)
    }

    /// Sets the deletion rate, in bytes per second. It applies to tables and blob files, and to
    /// logs if they are in the first directory of the tables. If it is 0, the default, or less,
    /// files are removed at once, and so is the trash that is left.
    pub fn set_delete_rate_bytes_per_second(&self, rate: i64) {
        let _trash = self.shared.trash.lock();
        self.shared.delete_rate.store(rate, Relaxed);
        self.shared.changed.notify_all();
    }

    /// Returns the ratio of the size of the trash to the total size above which files are removed
    /// at once.
    pub fn max_trash_db_ratio(&self) -> f64 {
        f64::from_bits(self.shared.max_trash_db_ratio.load(Relaxed))
    }

    /// Sets the ratio of the size of the trash to the total size above which files are removed at
    /// once, so that the trash does not fill the disk. Default: 0.25.
    pub fn set_max_trash_db_ratio(&self, ratio: f64) {
        self.shared.max_trash_db_ratio.store(ratio.to_bits(), Relaxed);
    }

    /// Returns the total size of the trash, in bytes.
    pub fn total_trash_size(&self) -> u64 {
        self.shared.trash.lock().bytes()
    }

    /// Waits until all trash is removed.
    pub fn wait_for_empty_trash(&self) {
        let trash = self.shared.trash.lock();
        drop(self.shared.changed.wait_while(trash, |trash| !trash.is_empty()));
    }
}

impl Drop for SstFileManager {
    /// Ends the thread. The trash that is left is removed when its database is opened again.
    fn drop(&mut self) {
        self.shared.trash.lock().close();
        self.shared.changed.notify_all();
    }
}
