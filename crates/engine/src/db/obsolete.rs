//! Removal of tables that no version has any more, once nobody reads them.
//!
//! Removing a large file takes the filesystem milliseconds, during which others wait for its
//! journal. So a dedicated thread removes one file at a time and rests in between, several times as
//! long as the removal took.

use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use crate::Result;
use crate::background::Cleaning;
use crate::db::errors::FailedPart;
use crate::db::{ColumnFamily, Writer};
use crate::epoch::{self, heavy};
use crate::table::{BlockCache, TableCache};
use crate::version::FileMetadata;

/// Rest after a removal, as a multiple of its duration.
const REST: u32 = 4;
/// Longest rest.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// The name of this work in errors.
const CLEANING: &str = "the removal of obsolete files";

/// A table that no version has any more.
#[derive(Debug)]
pub(crate) struct Obsolete {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<FileMetadata>,
    /// The cache that may hold its blocks.
    block_cache: Option<Arc<BlockCache>>,
}

impl Writer {
    /// The cleaning thread's loop, until the database is closed.
    pub(crate) fn run_cleaning(&self) {
        let _collector = heavy::Collector::begin();
        loop {
            match self.background.next_cleaning() {
                // A failure is latched and reported to refused callers.
                Cleaning::Remove => {
                    drop(self.round(FailedPart::Upkeep, CLEANING, || self.clean()));
                }
                // No caller is left to report to; the LOG has the result.
                Cleaning::Close => drop(self.close(&self.abandoned)),
                Cleaning::End => return,
            }
        }
    }

    /// Removes the tables that nobody reads any more, with a rest after each.
    fn clean(&self) {
        // Not in the flushing thread: the leader of the write queue may wait for that one.
        self.resume_after_shortage();
        epoch::collect();
        heavy::collect();
        while let Some(table) = self.next_obsolete() {
            let start_ns = self.clock.monotonic_ns();
            self.remove_obsolete(&table);
            let took = Duration::from_nanos(self.clock.monotonic_ns() - start_ns);
            self.background.sleep((took * REST).min(LONGEST_REST));
            // Collected here too, because there may be very many tables.
            heavy::collect();
        }
    }

    /// Like `clean`, without rests, in the calling thread.
    pub(crate) fn clean_here(&self) {
        let clean = || {
            epoch::collect();
            self.remove_obsolete_tables();
        };
        // A failure is latched and reported to refused callers.
        let _ = self.round(FailedPart::Upkeep, CLEANING, clean);
    }

    /// Schedules the removal of tables that no version has, for when nobody reads them.
    pub(crate) fn retire_files<'a>(
        &self,
        family: &ColumnFamily,
        files: impl Iterator<Item = &'a Arc<FileMetadata>>,
    ) {
        let readers = family.readers();
        let tables = &readers.tables;
        let block_cache = &tables.context().block_cache;
        let retired = files.map(|file| Obsolete {
            path: tables.path(file),
            file: Arc::clone(file),
            block_cache: block_cache.clone(),
        });
        self.obsolete().extend(retired);
        self.background.clean_soon();
    }

    /// Removes a new table that no version will have. If that fails, the next open removes it.
    pub(crate) fn remove_new_table(&self, tables: &TableCache, file: &FileMetadata) -> Result<()> {
        if let Some(block_cache) = &tables.context().block_cache {
            block_cache.erase_file(file.identity().cache_id);
        }
        Ok(self.storage.remove(&tables.path(file))?)
    }

    /// Schedules the removal of a dropped column family's tables, for when nobody reads them.
    pub(crate) fn retire_tables(&self, family: &ColumnFamily) {
        let source = family.super_version();
        self.retire_files(family, source.version().files().map(|(_, file)| file));
    }

    /// Removes the obsolete tables that nobody reads any more, without a rest.
    pub(crate) fn remove_obsolete_tables(&self) {
        while let Some(table) = self.next_obsolete() {
            self.remove_obsolete(&table);
        }
    }

    /// Takes a table that nobody reads any more off the list.
    fn next_obsolete(&self) -> Option<Obsolete> {
        let mut obsolete = self.obsolete();
        let at = obsolete.iter().position(|table| table.file.is_last())?;
        Some(obsolete.swap_remove(at))
    }

    fn remove_obsolete(&self, table: &Obsolete) {
        if let Some(block_cache) = &table.block_cache {
            block_cache.erase_file(table.file.identity().cache_id);
        }
        if let Err(error) = self.storage.remove(&table.path) {
            self.info_log.warn(format_args!("an obsolete table could not be removed: {error}"));
        }
    }

    /// Returns the list of tables that no version has any more.
    pub(crate) fn obsolete(&self) -> MutexGuard<'_, Vec<Obsolete>> {
        self.obsolete.lock()
    }
}
