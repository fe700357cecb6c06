//! Tables and blob files that no version has any more: they go when nobody reads them.
//!
//! Removing a large file takes the filesystem milliseconds, in which others wait for its journal.
//! So a thread of its own removes one file after the other and rests in between, several times as
//! long as a removal took.

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

/// How many times as long as a removal took the next one waits.
const REST: u32 = 4;
/// How long it waits at most.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// What an error calls this.
const CLEANING: &str = "the removal of obsolete files";

/// A table that no version has any more.
#[derive(Debug)]
pub(crate) struct Obsolete {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<FileMetadata>,
    /// Where blocks of it may be.
    block_cache: Option<Arc<BlockCache>>,
}

impl Writer {
    /// What the cleaning thread does until the database is closed.
    pub(crate) fn run_cleaning(&self) {
        let _collector = heavy::Collector::begin();
        loop {
            match self.background.next_cleaning() {
                // Who is refused is told of a failure.
                Cleaning::Remove => {
                    drop(self.round(FailedPart::Upkeep, CLEANING, || self.clean()));
                }
                // Nobody is left to be told; the LOG has it.
                Cleaning::Close => drop(self.close(&self.abandoned)),
                Cleaning::End => return,
            }
        }
    }

    /// Has tables go that nobody reads any more, with a rest behind each.
    fn clean(&self) {
        // Not in the thread that flushes: who leads the write queue may wait for that one.
        self.resume_after_shortage();
        epoch::collect();
        heavy::collect();
        while let Some(table) = self.next_obsolete() {
            let start_ns = self.clock.monotonic_ns();
            self.remove_obsolete(&table);
            let took = Duration::from_nanos(self.clock.monotonic_ns() - start_ns);
            self.background.sleep((took * REST).min(LONGEST_REST));
            // There may be very many tables.
            heavy::collect();
        }
    }

    /// The same without rests, in the thread that asked for it.
    pub(crate) fn clean_here(&self) {
        let clean = || {
            epoch::collect();
            self.remove_obsolete_tables();
        };
        // Who is refused is told of a failure.
        let _ = self.round(FailedPart::Upkeep, CLEANING, clean);
    }

    /// Has tables go that no version has, when nobody reads them.
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

    /// Removes a new table that no version will have. If it stays, the next open removes it.
    pub(crate) fn remove_new_table(&self, tables: &TableCache, file: &FileMetadata) -> Result<()> {
        if let Some(block_cache) = &tables.context().block_cache {
            block_cache.erase_file(file.identity().cache_id);
        }
        Ok(self.storage.remove(&tables.path(file))?)
    }

    /// Has the tables of a dropped column family go when nobody reads them.
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

    /// Takes a table off the list that nobody reads any more.
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
            self.info_log.warn(format_args!("a table that is not needed stays: {error}"));
        }
    }

    /// The tables that no version has any more.
    pub(crate) fn obsolete(&self) -> MutexGuard<'_, Vec<Obsolete>> {
        self.obsolete.lock()
    }
}
