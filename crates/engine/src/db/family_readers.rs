//! What reads of column families go through: open tables, blob files, merge operators.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::Comparator;

use crate::blob::BlobCache;
use crate::merge_operator::FamilyMergeOperator;
use crate::recovery::OpenOptions;
use crate::stats::ReaderMemory;
use crate::table::{BlockCache, OpenTables, TableCache, TableContext};

/// What all reads of a column family have in common, whatever its memtables and version.
#[derive(Debug)]
pub(crate) struct FamilyReaders {
    pub(crate) tables: Arc<TableCache>,
    pub(crate) blobs: BlobCache,
    pub(crate) merge_operator: FamilyMergeOperator,
    /// How many records an iterator steps over, one by one, before it tries a seek.
    pub(crate) max_sequential_skip: u64,
}

/// Makes the readers of column families, which share a block cache and a bound on open files.
#[derive(Debug)]
pub(crate) struct ReaderFactory {
    directory: PathBuf,
    block_cache: Arc<BlockCache>,
    open_tables: Arc<OpenTables>,
    max_open_files: Option<usize>,
    memory: Arc<ReaderMemory>,
}

impl ReaderFactory {
    /// For the database in `directory`.
    pub(crate) fn new(directory: &Path, options: &OpenOptions) -> Self {
        // A negative number means any.
        let max_open_files = usize::try_from(options.database().max_open_files).ok();
        Self {
            directory: directory.to_owned(),
            block_cache: options.shared_block_cache(),
            open_tables: Arc::new(OpenTables::new(max_open_files)),
            max_open_files,
            memory: Arc::default(),
        }
    }

    /// The readers of the column family of that name.
    pub(crate) fn readers(
        &self,
        options: &OpenOptions,
        name: &str,
        comparator: &Comparator,
    ) -> FamilyReaders {
        let context = Arc::new(TableContext {
            comparator: comparator.clone(),
            prefix_extractor: options.prefix_extractor(name),
            block_cache: options.block_cache(name, &self.block_cache),
            uses_filters: options.uses_filters(name),
            verifies_unique_ids: options.database().verify_sst_unique_id_in_manifest,
            meta_blocks: options.meta_block_placement(name),
            auto_read_ahead: options.auto_read_ahead(name),
            statistics: options.statistics().cloned(),
            reader_memory: Arc::clone(&self.memory),
        });
        let storage = Arc::clone(options.storage());
        let directories = options.table_directories(&self.directory, name);
        let blobs = options.blob_directory(&self.directory, name);
        let blobs = BlobCache::new(Arc::clone(&storage), blobs, self.max_open_files);
        let open_tables = Arc::clone(&self.open_tables);
        FamilyReaders {
            tables: Arc::new(TableCache::new(storage, directories, context, open_tables)),
            blobs,
            merge_operator: options.merge_operator(name),
            max_sequential_skip: options.column_family(name).max_sequential_skip_in_iterations,
        }
    }
}
