//! The open tables of a column family.
//!
//! A table's reader is stored in its [`FileMetadata`], so that a read finds the reader with one
//! load. [`OpenTables`] limits how many tables are open, and selects those to close.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tailwater_format::Comparator;
use tailwater_format::file_name::FileKind;
use tailwater_io::sync::Mutex;
use tailwater_io::{IoMode, Purpose, Storage};

use crate::epoch::{Guard, Held};
use crate::error::Result;
use crate::io_modes::IoModes;
use crate::stats::{Histogram, Ticker, slow_reads};
use crate::table::{
    FileMetadata, FileStatistics, MetaBlockPlacement, OpenBudget, OpenTables, RowCache,
    TableContext, TableReader,
};

/// The open tables of a column family.
#[derive(Debug)]
pub(crate) struct TableCache {
    storage: Arc<dyn Storage>,
    /// The directories in which tables may be, by path id.
    directories: Vec<PathBuf>,
    io_modes: Arc<IoModes>,
    context: Arc<TableContext>,
    open: Arc<OpenTables>,
    /// The row cache, if there is one.
    rows: Option<RowCache>,
    /// Set if this cache belongs to a compaction, which opens its own readers.
    inputs: Option<InputReaders>,
}

/// The readers of a compaction's inputs. They are opened in the I/O mode of compaction reads, which
/// may differ from that of users' reads, and are never shared with users.
#[derive(Debug)]
struct InputReaders {
    budget: Arc<OpenBudget>,
    /// Readers, by file number, that the compaction opened to inspect tables, and that it keeps for
    /// the merge. Readers of tables in level 1 and deeper levels are kept only while less than half
    /// of `budget` is used.
    kept: Mutex<HashMap<u64, Arc<TableReader>>>,
}

impl TableCache {
    /// Creates the table cache of a column family, without open tables. `open` limits and closes
    /// the open tables of the whole database.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        directories: Vec<PathBuf>,
        io_modes: Arc<IoModes>,
        context: Arc<TableContext>,
        open: Arc<OpenTables>,
    ) -> Self {
        Self { storage, directories, io_modes, context, open, rows: None, inputs: None }
    }

    /// Sets the row cache.
    #[must_use]
    pub(crate) fn with_rows(self, rows: Option<RowCache>) -> Self {
        Self { rows, ..self }
    }

    /// Whether, in any directory, tables are opened in different I/O modes (direct or buffered) for
    /// compactions and for users' reads.
    pub(crate) fn compactions_read_otherwise(&self) -> bool {
        let (users, compactions) = (Purpose::UserRead, Purpose::CompactionRead);
        let mut directories = self.directories.iter();
        directories.any(|directory| self.io_modes.differ(users, compactions, directory))
    }

    /// Returns the I/O mode of compaction reads: direct if it is direct in any directory, otherwise
    /// that of the first directory.
    pub(crate) fn mode_of_inputs(&self) -> IoMode {
        let purpose = Purpose::CompactionRead;
        let mut modes = self.directories.iter().map(|at| self.io_modes.mode(purpose, at));
        let first = modes.next().unwrap_or_default();
        modes.fold(first, |all, mode| if mode == IoMode::Direct { mode } else { all })
    }

    /// Returns the maximum size of a request, in bytes, that every device with tables performs
    /// without splitting it, if known.
    pub(crate) fn request_bytes_max(&self) -> Option<usize> {
        let directories = self.directories.iter();
        directories.filter_map(|at| self.io_modes.request_bytes_max(&*self.storage, at)).min()
    }

    /// Returns a table cache for the inputs of a compaction. The compaction reads each table once,
    /// in order, in the I/O mode of compaction reads. Each open creates a separate reader. The
    /// reader counts against `budget`, is closed when it is dropped, and uses neither filters nor
    /// the block cache.
    pub(crate) fn of_inputs(&self, budget: &Arc<OpenBudget>) -> Self {
        let context = TableContext {
            block_cache: None,
            uses_filters: false,
            meta_blocks: MetaBlockPlacement::WITH_TABLE,
            advises_random: false,
            ..TableContext::clone(&self.context)
        };
        Self {
            storage: Arc::clone(&self.storage),
            directories: self.directories.clone(),
            io_modes: Arc::clone(&self.io_modes),
            context: Arc::new(context),
            open: Arc::clone(&self.open),
            rows: None,
            inputs: Some(InputReaders { budget: Arc::clone(budget), kept: Mutex::default() }),
        }
    }

    /// Returns a table cache that reads everything from the tables' files: for index and filter
    /// partitions it has a block cache of its own.
    pub(crate) fn for_verification(&self) -> Self {
        let TableContext { comparator, prefix_extractor, .. } = &*self.context;
        Self {
            storage: Arc::clone(&self.storage),
            directories: self.directories.clone(),
            io_modes: Arc::clone(&self.io_modes),
            context: TableContext::standalone(comparator.clone(), prefix_extractor.clone()),
            open: Arc::clone(&self.open),
            rows: None,
            inputs: None,
        }
    }

    /// Returns the order of user keys.
    pub(crate) fn comparator(&self) -> &Comparator {
        &self.context.comparator
    }

    /// Returns the context shared by the tables.
    pub(crate) fn context(&self) -> &Arc<TableContext> {
        &self.context
    }

    /// Returns the row cache, if there is one.
    #[inline]
    pub(crate) fn rows(&self) -> Option<&RowCache> {
        self.rows.as_ref()
    }

    /// Returns a table's reader, if it is open.
    #[inline]
    pub(crate) fn opened<'g>(
        &self,
        file: &FileMetadata,
        guard: &'g Guard,
    ) -> Option<Held<'g, TableReader>> {
        let table = file.reader.cell.load(guard)?;
        let was_read = &file.reader.was_read;
        if self.open.tracks_reads() && !was_read.load(Ordering::Relaxed) {
            was_read.store(true, Ordering::Relaxed);
        }
        Some(table)
    }

    /// Returns a table's reader, opening it if necessary.
    pub(crate) fn open(
        &self,
        file: &Arc<FileMetadata>,
        purpose: Purpose,
    ) -> Result<Arc<TableReader>> {
        if let Some(inputs) = &self.inputs {
            if let Some(kept) = inputs.kept.lock().get(&file.number()) {
                return Ok(Arc::clone(kept));
            }
            return self.open_uncached(file, purpose).map(Arc::new);
        }
        if let Some(table) = file.reader.get() {
            file.reader.was_read.store(true, Ordering::Relaxed);
            return Ok(table);
        }
        if purpose == Purpose::CompactionRead {
            // A compaction may run in a low-priority thread. It must not take a lock that users'
            // reads take: the reads would wait while the thread gets no processor.
            return self.open_uncached(file, purpose).map(Arc::new);
        }
        self.open_shared(file, purpose)
    }

    /// Opens a shared table. If several threads call this concurrently for a table, one opens it
    /// and the others wait.
    fn open_shared(&self, file: &Arc<FileMetadata>, purpose: Purpose) -> Result<Arc<TableReader>> {
        let _opening = file.reader.opening.lock();
        if let Some(table) = file.reader.get() {
            return Ok(table);
        }
        slow_reads::count(|counts| counts.tables_opened += 1);
        let table = Arc::new(self.open_uncached(file, purpose)?);
        file.reader.cell.store_in(&self.context.bin, Some(Arc::clone(&table)));
        self.open.keep(file);
        Ok(table)
    }

    /// Like [`TableCache::open`], for a table that a compaction inspects before reading it. The
    /// reader is kept for the later read if the table is in level 0, or if the compactions' budget
    /// of open files has room.
    pub(crate) fn open_to_inspect(
        &self,
        file: &Arc<FileMetadata>,
        purpose: Purpose,
    ) -> Result<Arc<TableReader>> {
        let Some(inputs) = &self.inputs else {
            return match file.reader.get() {
                Some(table) => Ok(table),
                None => self.open_shared(file, purpose),
            };
        };
        let table = self.open(file, purpose)?;
        if file.added().level == 0 || inputs.budget.has_room() {
            inputs.kept.lock().insert(file.number(), Arc::clone(&table));
        }
        Ok(table)
    }

    /// Returns the maximum number of open tables. Opening the database may open this many tables in
    /// advance.
    pub(crate) fn open_max(&self) -> usize {
        self.open.capacity()
    }

    /// Returns the number of new tables that may be opened in advance. The number leaves room for
    /// tables in use: opening the new tables closes neither those nor one of the new tables.
    pub(crate) fn new_tables_max(&self) -> usize {
        match self.open.capacity() {
            usize::MAX => usize::MAX,
            capacity => capacity / 2,
        }
    }

    /// Opens a separate reader, which is not put into the cache.
    pub(crate) fn open_uncached(
        &self,
        file: &FileMetadata,
        purpose: Purpose,
    ) -> Result<TableReader> {
        let Some(statistics) = &self.context.statistics else {
            return self.open_file(file, purpose);
        };
        let started = statistics.start();
        let opened = self.open_file(file, purpose);
        statistics.record_since(Histogram::TableOpenIo, started);
        let ticker = match &opened {
            Err(_) => Ticker::FileErrors,
            // Direct opens of compaction inputs are counted separately, since they would far
            // outnumber other opens.
            Ok(table) if self.inputs.is_some() && table.mode() == IoMode::Direct => {
                Ticker::CompactionDirectFileOpens
            }
            Ok(_) => Ticker::FileOpens,
        };
        statistics.add(ticker, 1);
        opened
    }

    fn open_file(&self, file: &FileMetadata, purpose: Purpose) -> Result<TableReader> {
        let path = self.path(file);
        // A reader that users' reads share is opened in the I/O mode of users' reads, even if the
        // first read has another purpose. Only a cache of a compaction opens its readers in the
        // mode of `purpose`.
        let opened_for = if self.inputs.is_some() { purpose } else { Purpose::UserRead };
        let mode = self.io_modes.mode_of_file(opened_for, &path);
        let permit = self.inputs.as_ref().map(|inputs| inputs.budget.take());
        let opened = match self.storage.open(&path, mode, purpose) {
            Err(error) if error.is_not_found() => {
                // The table's file may have LevelDB's extension, `.ldb`.
                let old_name =
                    path.with_file_name(FileKind::LevelDbTable(file.number()).to_string());
                let opened = self.storage.open(&old_name, mode, purpose);
                opened.map_err(|other| if other.is_not_found() { error } else { other })?
            }
            opened => opened?,
        };
        if self.context.advises_random {
            opened.advise_random();
        }
        let context = Arc::clone(&self.context);
        let mut table = TableReader::open(opened, context, &file.identity(), purpose)?;
        table.permit = permit;
        let handover = self.context.handover.as_ref();
        let hot_regions = handover.map(|handover| file.hot_regions(&handover.generations));
        table.hot_regions = hot_regions.cloned();
        file.set_statistics(FileStatistics::of(table.properties()));
        Ok(table)
    }

    /// Returns a table's path.
    pub(crate) fn path(&self, file: &FileMetadata) -> PathBuf {
        self.directory(file.added().path_id).join(file.name().to_string())
    }

    /// Returns the directory with this path id, or the last directory if there is none with this
    /// id.
    pub(crate) fn directory(&self, path_id: u8) -> &Path {
        let directory = self.directories.get(usize::from(path_id)).or(self.directories.last());
        directory.map_or(Path::new(""), PathBuf::as_path)
    }
}
