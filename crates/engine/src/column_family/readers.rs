//! The resources with which column families are read: open tables, open blob files, merge
//! operators.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_io::in_flight::ReadsInFlight;
use tailwater_io::kernel::{Memory, System};
use tailwater_io::{IoMode, Purpose};

use crate::blob::BlobCache;
use crate::block_cache::{BlockCache, RecentKeys};
use crate::column_family::OpenFiles;
use crate::epoch::Garbage;
use crate::handover::{Generations, Handover, Shares};
use crate::io_modes::IoModes;
use crate::merge_operator::FamilyMergeOperator;
use crate::open_options::OpenOptions;
use crate::options::PrepopulateBlockCache;
use crate::stall::CompactionPressure;
use crate::stats::ReaderMemory;
use crate::stats::slow_reads::SlowReads;
use crate::table::{OpenBudget, RowCache, TableCache, TableContext};
use crate::write_buffer_manager::WriteBufferManager;

/// The resources that all reads of a column family share. They do not depend on the version or the
/// memtables that a read uses.
#[derive(Debug, Clone)]
pub(crate) struct FamilyReaders {
    pub(crate) tables: Arc<TableCache>,
    pub(crate) blobs: Arc<BlobCache>,
    pub(crate) merge_operator: FamilyMergeOperator,
    /// Whether an iterator uses prefix filters only if its read options request it (the option
    /// `prefix_seek_opt_in_only`).
    pub(crate) prefixes_on_request: bool,
}

impl FamilyReaders {
    /// Returns the readers for a compaction. Blob files are read through a separate cache of open
    /// files, because the compaction may use another I/O mode than users do. The files in this
    /// cache count against `budget`.
    pub(crate) fn for_compaction(&self, budget: &Arc<OpenBudget>) -> Self {
        Self { blobs: self.blobs.for_compaction(budget), ..self.clone() }
    }
}

/// Creates the readers of a database's column families. All these readers share a limit of open
/// files, and those of column families without a block cache of their own share one.
#[derive(Debug)]
pub(crate) struct ReaderFactory {
    directory: PathBuf,
    block_cache: Arc<BlockCache>,
    io_modes: Arc<IoModes>,
    memory: Arc<ReaderMemory>,
    in_flight: Arc<ReadsInFlight>,
    /// The garbage of the database.
    pub(crate) garbage: Arc<Garbage>,
    /// The slow reads of the database.
    pub(crate) slow_reads: Arc<SlowReads>,
    /// The open files of all readers.
    pub(crate) open_files: Arc<OpenFiles>,
    /// The generations of the warm set.
    pub(crate) generations: Arc<Generations>,
    /// The compaction pressure, which limits warm handover.
    pub(crate) pressure: Arc<CompactionPressure>,
    /// Counts and limits the memory of the memtables; `None` if the options do not limit it.
    pub(crate) write_buffer_manager: Option<Arc<WriteBufferManager>>,
}

impl ReaderFactory {
    /// Creates the factory, while the database in `directory` is being opened.
    pub(crate) fn new(directory: &Path, options: &OpenOptions, io_modes: Arc<IoModes>) -> Self {
        let max_open_files = options.database().max_open_files;
        let garbage = Garbage::new();
        Self {
            directory: directory.to_owned(),
            block_cache: options.shared_block_cache(),
            io_modes,
            memory: Arc::default(),
            in_flight: Arc::new(ReadsInFlight::new(
                options.database().tailwater.max_bytes_in_flight as usize,
                !options.inline_background(),
                options.storage().statistics().foreground(),
            )),
            slow_reads: Arc::new(SlowReads::new(
                options.database().tailwater.slow_read_threshold_us,
                options.database().tailwater.slow_read_keys,
            )),
            open_files: OpenFiles::new(options.descriptor_budget(), max_open_files, &garbage),
            garbage,
            generations: Arc::new(Generations::new(memory_bytes())),
            pressure: Arc::default(),
            write_buffer_manager: options.write_buffer_manager(),
        }
    }

    /// Creates the readers of the column family `name`.
    pub(crate) fn readers(
        &self,
        options: &OpenOptions,
        name: &str,
        comparator: &Comparator,
    ) -> FamilyReaders {
        let blobs = options.blob_directory(&self.directory, name);
        let io_modes = Arc::clone(&self.io_modes);
        let open = Arc::clone(&self.open_files.blob_files);
        let blobs = BlobCache::new(Arc::clone(options.storage()), blobs, io_modes, open);
        FamilyReaders {
            tables: self.tables(
                options,
                name,
                comparator,
                options.block_cache(name, &self.block_cache),
            ),
            blobs: Arc::new(blobs),
            merge_operator: options.merge_operator(name),
            prefixes_on_request: options.database().prefix_seek_opt_in_only,
        }
    }

    /// Creates the readers that replace `before` after a change of options. They keep the block
    /// cache of `before`, unless the new options disable the cache or enable it again.
    pub(crate) fn changed(
        &self,
        before: &FamilyReaders,
        options: &OpenOptions,
        name: &str,
    ) -> FamilyReaders {
        let context = before.tables.context();
        let block_cache = match &context.block_cache {
            Some(_) if options.column_family(name).table_factory.no_block_cache => None,
            Some(cache) => Some(Arc::clone(cache)),
            None => options.block_cache(name, &self.block_cache),
        };
        let tables = self.tables(options, name, &context.comparator, block_cache);
        FamilyReaders { tables, ..before.clone() }
    }

    fn tables(
        &self,
        options: &OpenOptions,
        name: &str,
        comparator: &Comparator,
        block_cache: Option<Arc<BlockCache>>,
    ) -> Arc<TableCache> {
        let directories = options.table_directories(&self.directory, name);
        let handover = self.handover(options, name, &directories, block_cache.as_ref());
        let context = Arc::new(TableContext {
            comparator: comparator.clone(),
            prefix_extractor: options.prefix_extractor(name),
            charges: options.cache_charges(name, block_cache.as_ref()),
            block_cache,
            uses_filters: options.uses_filters(name),
            verifies_unique_ids: options.database().verify_sst_unique_id_in_manifest,
            meta_blocks: options.meta_block_placement(name),
            auto_read_ahead: options.auto_read_ahead(name),
            advises_random: options.database().advise_random_on_open,
            statistics: options.statistics().cloned(),
            in_flight: Arc::clone(&self.in_flight),
            slow_reads: Arc::clone(&self.slow_reads),
            family: Arc::from(name),
            bin: self.garbage.bin(),
            reader_memory: Arc::clone(&self.memory),
            handover,
        });
        let storage = Arc::clone(options.storage());
        let (io_modes, open) = (Arc::clone(&self.io_modes), Arc::clone(&self.open_files.tables));
        let rows = options
            .row_cache()
            .map(|cache| RowCache::new(Arc::clone(cache), options.statistics().cloned()));
        Arc::new(TableCache::new(storage, directories, io_modes, context, open).with_rows(rows))
    }

    /// Returns the warm handover settings of the column family `name`, whose tables are in
    /// `directories`. With these settings, flushes and compactions put into the caches data of the
    /// tables that they write. Returns `None` if they put no data into the caches. Blocks that
    /// users read are put into the caches only if compactions bypass the page cache.
    fn handover(
        &self,
        options: &OpenOptions,
        name: &str,
        directories: &[PathBuf],
        block_cache: Option<&Arc<BlockCache>>,
    ) -> Option<Arc<Handover>> {
        let mode = |purpose, directory: &PathBuf| self.io_modes.mode(purpose, directory);
        let writes = |directory: &PathBuf| mode(Purpose::CompactionWrite, directory);
        let read = options.database().tailwater.warm_handover
            && directories.iter().any(|it| writes(it) != IoMode::Buffered);
        let prepopulates = options.column_family(name).table_factory.prepopulate_block_cache;
        let all_of_compactions = prepopulates == PrepopulateBlockCache::FlushAndCompaction;
        let all_of_flushes = prepopulates != PrepopulateBlockCache::Disable;
        if !read && !all_of_flushes {
            return None;
        }
        let goes_past = |directory: &PathBuf| {
            mode(Purpose::UserRead, directory) == IoMode::Buffered
                && writes(directory) == IoMode::Direct
        };
        let pages = read && directories.iter().any(goes_past);
        let past = |directory| mode(Purpose::FlushWrite, directory) == IoMode::Direct;
        let flushes = read && directories.iter().any(past);
        let shares = Shares { read, pages, flushes, all_of_compactions, all_of_flushes };
        Some(Arc::new(Handover {
            generations: Arc::clone(&self.generations),
            recent_keys: block_cache.map_or_else(
                || Arc::new(RecentKeys::new(0)),
                |cache| Arc::clone(&cache.recent_keys),
            ),
            pressure: Arc::clone(&self.pressure),
            cache: block_cache.cloned(),
            shares,
            statistics: options.statistics().cloned(),
        }))
    }
}

/// Returns the memory limit of this process or, without a limit, the machine's memory, in bytes. If
/// the system reports neither, assumes 1 GiB.
fn memory_bytes() -> u64 {
    Memory::of_this_process(System::default()).limit().unwrap_or(1 << 30)
}
