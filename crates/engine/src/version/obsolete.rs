//! Removes tables that are no longer in any version, once no reader uses them.
//!
//! Removing a large file takes milliseconds, during which other threads wait for the filesystem's
//! journal. So a dedicated thread removes one file at a time, and after each removal pauses several
//! times as long as the removal took.

use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tailwater_io::sync::Mutex;
use tailwater_io::{Clock, Storage};

use crate::block_cache::BlockCache;
use crate::epoch::heavy;
use crate::error::Result;
use crate::stats::InfoLog;
use crate::table::{FileMetadata, TableCache};

/// Length of the pause after the removal of a table, as a multiple of the time that the removal
/// took.
const REST: u32 = 4;
/// Maximum length of the pause after the removal of a table.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// A table that is no longer in any version.
#[derive(Debug)]
pub(crate) struct Obsolete {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<FileMetadata>,
    /// The cache that may hold blocks of the table.
    block_cache: Option<Arc<BlockCache>>,
}

/// Tables that are in no version, to be removed once no reader uses them.
pub(crate) struct ObsoleteTables {
    storage: Arc<dyn Storage>,
    info_log: Arc<InfoLog>,
    tables: Mutex<Vec<Obsolete>>,
}

impl ObsoleteTables {
    /// Creates an empty list.
    pub(super) fn new(storage: Arc<dyn Storage>, info_log: Arc<InfoLog>) -> Self {
        Self { storage, info_log, tables: Mutex::default() }
    }

    /// Adds tables of a column family that are no longer in any version. The cleaning thread must
    /// be notified afterwards.
    pub(crate) fn add<'a>(
        &self,
        tables: &TableCache,
        files: impl Iterator<Item = &'a Arc<FileMetadata>>,
    ) {
        let block_cache = &tables.context().block_cache;
        let retired = files.map(|file| Obsolete {
            path: tables.path(file),
            file: Arc::clone(file),
            block_cache: block_cache.clone(),
        });
        self.list().extend(retired);
    }

    /// Removes the tables that no reader uses. After each removal, calls `rest` with the length of
    /// the pause.
    pub(crate) fn remove_unread(&self, clock: &dyn Clock, rest: impl Fn(Duration)) {
        while let Some(table) = self.next() {
            let start_ns = clock.monotonic_ns();
            self.remove(&table);
            let took = Duration::from_nanos(clock.since_ns(start_ns));
            rest((took * REST).min(LONGEST_REST));
            // Other threads leave large objects for this thread to free. These objects do not wait
            // until all tables are removed, because there may be very many tables.
            heavy::collect();
        }
    }

    /// Like [`ObsoleteTables::remove_unread`], but without pauses between removals.
    pub(crate) fn remove_unread_at_once(&self) {
        while let Some(table) = self.next() {
            self.remove(&table);
        }
    }

    /// Removes a new table that will not be installed. If that fails, the next open removes it.
    pub(crate) fn remove_new(&self, tables: &TableCache, file: &FileMetadata) -> Result<()> {
        if let Some(block_cache) = &tables.context().block_cache {
            block_cache.erase_file(file.identity().cache_id);
        }
        Ok(self.storage.remove(&tables.path(file))?)
    }

    /// Locks the list.
    pub(crate) fn list(&self) -> MutexGuard<'_, Vec<Obsolete>> {
        self.tables.lock()
    }

    /// Removes from the list a table that no reader uses, and returns it.
    fn next(&self) -> Option<Obsolete> {
        let mut obsolete = self.list();
        let at = obsolete.iter().position(|table| table.file.is_last())?;
        Some(obsolete.swap_remove(at))
    }

    fn remove(&self, table: &Obsolete) {
        if let Some(block_cache) = &table.block_cache {
            block_cache.erase_file(table.file.identity().cache_id);
        }
        if let Err(error) = self.storage.remove(&table.path) {
            self.info_log.warn(format_args!("cannot remove an obsolete table: {error}"));
        }
    }
}
