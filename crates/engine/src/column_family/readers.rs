//! The resources with which column families are read: open tables, open blob files, merge
//! operators.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use tailwater_format::Comparator;
use tailwater_io::kernel::{Memory, System};
use tailwater_io::{DescriptorBudget, IoMode, Purpose};

use crate::blob::{BlobCache, OpenBlobFiles};
use crate::block_cache::BlockCache;
use crate::column_family::{ColumnFamily, FamilySet};
use crate::handover::{Generations, Handover, Shares};
use crate::io_modes::IoModes;
use crate::merge_operator::FamilyMergeOperator;
use crate::open_options::OpenOptions;
use crate::opening::OpeningId;
use crate::options::PrepopulateBlockCache;
use crate::stall::CompactionPressure;
use crate::stats::{InfoLog, ReaderMemory};
use crate::table::{OpenBudget, OpenFiles, OpenShares, OpenTables, TableCache, TableContext};

/// The resources that all reads of a column family share. They do not depend on the version or the
/// memtables that a read uses.
#[derive(Debug)]
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
        Self {
            tables: Arc::clone(&self.tables),
            blobs: self.blobs.for_compaction(budget),
            merge_operator: self.merge_operator.clone(),
            prefixes_on_request: self.prefixes_on_request,
        }
    }
}

/// Creates the readers of a database's column families. All these readers share a block cache and a
/// limit of open files.
#[derive(Debug)]
pub(crate) struct ReaderFactory {
    opening: OpeningId,
    directory: PathBuf,
    block_cache: Arc<BlockCache>,
    open_tables: Arc<OpenTables>,
    open_blob_files: Arc<OpenBlobFiles>,
    /// The caches of open files, for the budget of descriptors.
    _open_files: Arc<OpenFiles>,
    descriptors: DescriptorBudget,
    io_modes: Arc<IoModes>,
    open_budget: Arc<OpenBudget>,
    generations: Arc<Generations>,
    pressure: Arc<CompactionPressure>,
    memory: Arc<ReaderMemory>,
}

impl ReaderFactory {
    /// Creates the factory of readers of tables and blob files, while the database in `directory`
    /// is being opened.
    pub(crate) fn new(directory: &Path, options: &OpenOptions, io_modes: Arc<IoModes>) -> Self {
        let descriptors = options.descriptor_budget().clone();
        let shares = OpenShares::new(descriptors.capacity(), options.database().max_open_files);
        let open_blob_files = Arc::new(OpenBlobFiles::new(shares.blob_files));
        let open_tables = OpenTables::new(shares, &descriptors);
        let (tables, blob_files) = (Arc::clone(&open_tables), Arc::clone(&open_blob_files));
        let open_files = Arc::new(OpenFiles(vec![tables, blob_files]));
        let keeper: Weak<OpenFiles> = Arc::downgrade(&open_files);
        descriptors.register(keeper);
        Self {
            opening: OpeningId::new(),
            directory: directory.to_owned(),
            block_cache: options.shared_block_cache(),
            open_tables,
            open_blob_files,
            _open_files: open_files,
            descriptors,
            io_modes,
            open_budget: Arc::new(OpenBudget::new(shares.compactions)),
            generations: Arc::new(Generations::new(memory_bytes())),
            pressure: Arc::default(),
            memory: Arc::default(),
        }
    }

    /// Returns the identifier of the open database handle. All column families of the handle carry
    /// the same identifier.
    pub(crate) fn opening(&self) -> OpeningId {
        self.opening
    }

    /// Returns the I/O modes of the database's files.
    pub(crate) fn io_modes(&self) -> &Arc<IoModes> {
        &self.io_modes
    }

    /// Returns the [`Generations`], which note the data that users read recently. Warm handover
    /// uses them: when a compaction writes recently read data to a new table, it also puts this
    /// data into the caches.
    pub(crate) fn generations(&self) -> &Arc<Generations> {
        &self.generations
    }

    /// Returns the compaction pressure. Under high pressure, compactions skip warm handover to save
    /// time.
    pub(crate) fn pressure(&self) -> &Arc<CompactionPressure> {
        &self.pressure
    }

    /// Returns the budget of file descriptors for the files that compactions open themselves.
    pub(crate) fn open_budget(&self) -> &Arc<OpenBudget> {
        &self.open_budget
    }

    /// Makes the factory write a message to the LOG when the process's limit on open files first
    /// causes tables to be closed. `tables` is the number of tables of the database, for the
    /// message.
    pub(crate) fn report_open_files_to(&self, info_log: &Arc<InfoLog>, tables: usize) {
        self.open_tables.report_to(info_log, tables);
    }

    /// Limits the number of open tables and blob files of all column families together. If
    /// `max_open_files` is negative, the limit is what the process's limit on open files allows.
    pub(crate) fn bound_open_files(&self, max_open_files: i32, families: &FamilySet) {
        let shares = OpenShares::new(self.descriptors.capacity(), max_open_files);
        self.open_budget.set(shares.compactions);
        let sources: Vec<_> = families.iter().map(ColumnFamily::super_version).collect();
        let files = sources.iter().flat_map(|source| source.version().files());
        let files: Vec<_> = files.map(|(_, file)| Arc::clone(file)).collect();
        self.open_tables.change(shares, &files);
        self.open_blob_files.set_capacity(shares.blob_files);
    }

    /// Creates the readers of the column family `name`.
    pub(crate) fn readers(
        &self,
        options: &OpenOptions,
        name: &str,
        comparator: &Comparator,
    ) -> FamilyReaders {
        let blobs = options.blob_directory(&self.directory, name);
        let (io_modes, open) = (Arc::clone(&self.io_modes), Arc::clone(&self.open_blob_files));
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
        FamilyReaders {
            tables: self.tables(options, name, &context.comparator, block_cache),
            blobs: Arc::clone(&before.blobs),
            merge_operator: before.merge_operator.clone(),
            prefixes_on_request: before.prefixes_on_request,
        }
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
            block_cache,
            uses_filters: options.uses_filters(name),
            verifies_unique_ids: options.database().verify_sst_unique_id_in_manifest,
            meta_blocks: options.meta_block_placement(name),
            auto_read_ahead: options.auto_read_ahead(name),
            advises_random: options.database().advise_random_on_open,
            statistics: options.statistics().cloned(),
            reader_memory: Arc::clone(&self.memory),
            handover,
        });
        let storage = Arc::clone(options.storage());
        let (io_modes, open) = (Arc::clone(&self.io_modes), Arc::clone(&self.open_tables));
        Arc::new(TableCache::new(storage, directories, io_modes, context, open))
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
