//! The options of a database and of a column family: one object, as in RocksDB.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_uchar};
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use tailwater::options::{
    self, ColumnFamilyOptions, CompactionStyle, CompressionType, DbOptions, DbPath,
    FifoCompactionOptions, ObjectName, UniversalCompactionOptions,
};
use tailwater::{
    BlockCache, CompactionFilter, Comparator, FamilyObjects, MergeOperator, OpenOptions,
    PrefixExtractor, RateLimiter, SstFileManager, Statistics, WriteBufferManager,
};

use crate::block_based_options::rocksdb_block_based_table_options_t;
use crate::boundary::{Failure, Outcome, entry, give, list, path, pointers};
use crate::cache::rocksdb_cache_t;
use crate::compaction_filter::rocksdb_compactionfilter_t;
use crate::comparator::rocksdb_comparator_t;
use crate::env::rocksdb_env_t;
use crate::marks::{Marked, Marks};
use crate::merge_operator::rocksdb_mergeoperator_t;
use crate::missing::rocksdb_logger_t;
use crate::rate_limiter::rocksdb_ratelimiter_t;
use crate::slice_transform::rocksdb_slicetransform_t;
use crate::values::{Texts, Value, set};
use crate::write_buffer_manager::rocksdb_write_buffer_manager_t;

/// The options of a database and of a column family, with the objects that they name.
#[derive(Clone, Default)]
pub(crate) struct rocksdb_options_t {
    pub(crate) database: DbOptions,
    pub(crate) family: ColumnFamilyOptions,
    pub(crate) marks: Marks,
    pub(crate) block_cache: Option<Arc<BlockCache>>,
    pub(crate) row_cache: Option<Arc<BlockCache>>,
    pub(crate) statistics: Option<Arc<Statistics>>,
    /// The level of statistics, which has no effect.
    pub(crate) statistics_level: c_int,
    /// Belongs to the program, as the compaction filter does.
    pub(crate) comparator: Option<Weak<Comparator>>,
    pub(crate) compaction_filter: Option<Weak<CompactionFilter>>,
    pub(crate) merge_operator: Option<MergeOperator>,
    pub(crate) prefix_extractor: Option<PrefixExtractor>,
    pub(crate) rate_limiter: Option<Arc<RateLimiter>>,
    pub(crate) write_buffer_manager: Option<Arc<WriteBufferManager>>,
    pub(crate) sst_file_manager: Option<Arc<SstFileManager>>,
    pub(crate) texts: Texts,
    pub(crate) write_lifetime_hints: BTreeSet<c_int>,
    pub(crate) checksum_handoff_types: BTreeSet<c_int>,
}

impl Marked for rocksdb_options_t {
    fn marks(&self) -> &Marks {
        &self.marks
    }
}

impl rocksdb_options_t {
    /// Adds the options of the database to those of an open call.
    pub(crate) fn add_database(&self, open: &mut OpenOptions) {
        open.set_database(self.database.clone());
        if let Some(statistics) = &self.statistics {
            open.set_statistics(Arc::clone(statistics));
        }
        if let Some(cache) = &self.row_cache {
            open.set_row_cache(Arc::clone(cache));
        }
        if let Some(rate_limiter) = &self.rate_limiter {
            open.set_rate_limiter(Arc::clone(rate_limiter));
        }
        if let Some(manager) = &self.write_buffer_manager {
            open.set_write_buffer_manager(Arc::clone(manager));
        }
        if let Some(manager) = &self.sst_file_manager {
            open.set_sst_file_manager(Arc::clone(manager));
        }
    }

    /// Adds the options and objects of the column family `name` to those of an open call.
    pub(crate) fn add_family(&self, open: &mut OpenOptions, name: &str) -> Outcome<()> {
        open.set_column_family(name, self.family.clone());
        let objects = self.objects()?;
        if let Some(comparator) = &objects.comparator {
            // Column families that a program does not name are opened for reading, too.
            open.add_comparator(comparator.clone());
        }
        open.set_family_objects(name, objects);
        Ok(())
    }

    /// Returns the objects of a column family with these options.
    pub(crate) fn objects(&self) -> Outcome<FamilyObjects> {
        let mut objects =
            FamilyObjects { block_cache: self.block_cache.clone(), ..FamilyObjects::default() };
        if let Some(comparator) = &self.comparator {
            let comparator = lent(comparator, "comparator")?;
            check_name("comparator", comparator.name())?;
            objects.comparator = Some(Comparator::clone(&comparator));
        }
        if let Some(operator) = &self.merge_operator {
            check_name("merge operator", operator.name())?;
            objects.merge_operator = Some(operator.clone());
        }
        if let Some(extractor) = &self.prefix_extractor {
            check_name("slice transform", &extractor.name())?;
            objects.prefix_extractor = Some(extractor.clone());
        }
        if let Some(filter) = &self.compaction_filter {
            let filter = lent(filter, "compaction filter")?;
            check_name("compaction filter", filter.name())?;
            objects.compaction_filter = Some(CompactionFilter::clone(&filter));
        }
        Ok(objects)
    }

    pub(crate) fn set_merge_operator(&mut self, operator: MergeOperator) {
        self.family.merge_operator = ObjectName::new(operator.name());
        self.merge_operator = Some(operator);
    }
}

/// Returns an object that belongs to the program.
fn lent<T>(object: &Weak<T>, kind: &str) -> Outcome<Arc<T>> {
    object.upgrade().ok_or_else(|| Failure::invalid(format!("the {kind} was destroyed")))
}

/// Refuses a name that options cannot hold: they would name another object, or none.
fn check_name(kind: &str, name: &str) -> Outcome<()> {
    if ObjectName::new(name).id() == Some(name) {
        return Ok(());
    }
    let rule = "it must not be empty, 'nullptr' or in braces, and must not contain '='";
    Err(Failure::invalid(format!("the name '{name}' of a {kind}: {rule}")))
}

entry! {
    fn rocksdb_options_create() -> *mut rocksdb_options_t {
        Ok(give(rocksdb_options_t::default()))
    }
}

entry! {
    fn rocksdb_options_create_copy(options: shared rocksdb_options_t) -> *mut rocksdb_options_t {
        Ok(give(options.clone()))
    }
}

entry! {
    fn rocksdb_options_destroy(options: own rocksdb_options_t) {
        drop(options);
        Ok(())
    }
}

entry! {
    /// The comparator stays the caller's.
    fn rocksdb_options_set_comparator(
        opt: &mut rocksdb_options_t,
        comparator: maybe rocksdb_comparator_t,
    ) {
        if let Some(comparator) = comparator {
            opt.marks.add(&comparator.marks);
        }
        opt.family.comparator = match comparator {
            Some(it) => ObjectName::new(it.comparator.name()),
            None => ObjectName::new(Comparator::Bytewise.name()),
        };
        opt.comparator = comparator.map(|it| Arc::downgrade(&it.comparator));
        Ok(())
    }
}

entry! {
    /// The options become the owner of the merge operator.
    fn rocksdb_options_set_merge_operator(
        opt: &mut rocksdb_options_t,
        merge_operator: own rocksdb_mergeoperator_t,
    ) {
        match merge_operator {
            Some(operator) => opt.set_merge_operator(operator.operator),
            None => {
                opt.merge_operator = None;
                opt.family.merge_operator = ObjectName::default();
            }
        }
        Ok(())
    }
}

entry! {
    fn rocksdb_options_set_uint64add_merge_operator(opt: &mut rocksdb_options_t) {
        opt.set_merge_operator(MergeOperator::UInt64Add);
        Ok(())
    }
}

entry! {
    /// The options become the owner of the prefix extractor.
    fn rocksdb_options_set_prefix_extractor(
        opt: &mut rocksdb_options_t,
        slice_transform: own rocksdb_slicetransform_t,
    ) {
        let extractor = slice_transform.map(|transform| transform.extractor);
        opt.family.prefix_extractor = match &extractor {
            None => options::PrefixExtractor::None,
            Some(PrefixExtractor::Fixed(length)) => options::PrefixExtractor::Fixed(*length),
            Some(PrefixExtractor::Capped(length)) => options::PrefixExtractor::Capped(*length),
            Some(PrefixExtractor::Noop) => options::PrefixExtractor::Noop,
            Some(own) => options::PrefixExtractor::Custom(own.name()),
        };
        opt.prefix_extractor = extractor;
        Ok(())
    }
}

entry! {
    /// The compaction filter stays the caller's.
    fn rocksdb_options_set_compaction_filter(
        opt: &mut rocksdb_options_t,
        filter: maybe rocksdb_compactionfilter_t,
    ) {
        opt.compaction_filter = filter.map(|it| Arc::downgrade(&it.filter));
        opt.family.compaction_filter =
            filter.map_or_else(ObjectName::default, |it| ObjectName::new(it.filter.name()));
        Ok(())
    }
}

entry! {
    /// As in RocksDB, null keeps the rate limiter.
    fn rocksdb_options_set_ratelimiter(
        opt: &mut rocksdb_options_t,
        limiter: maybe rocksdb_ratelimiter_t,
    ) {
        if let Some(limiter) = limiter {
            opt.rate_limiter = Some(Arc::clone(&limiter.limiter));
        }
        Ok(())
    }
}

entry! {
    /// As in RocksDB, null keeps the row cache.
    fn rocksdb_options_set_row_cache(opt: &mut rocksdb_options_t, cache: maybe rocksdb_cache_t) {
        if let Some(cache) = cache {
            opt.row_cache = Some(Arc::clone(&cache.cache));
        }
        Ok(())
    }
}

entry! {
    fn rocksdb_options_set_write_buffer_manager(
        opt: &mut rocksdb_options_t,
        wbm: maybe rocksdb_write_buffer_manager_t,
    ) {
        opt.write_buffer_manager = wbm.map(|wbm| Arc::clone(&wbm.manager));
        Ok(())
    }
}

entry! {
    /// There is only the default environment.
    fn rocksdb_options_set_env(opt: shared rocksdb_options_t, env: maybe rocksdb_env_t) {
        if let Some(env) = env {
            opt.marks.add(&env.marks);
        }
        Ok(())
    }
}

entry! {
    /// Without a logger, messages go to the file LOG.
    fn rocksdb_options_set_info_log(
        opt: shared rocksdb_options_t,
        logger: maybe rocksdb_logger_t,
    ) {
        if logger.is_some() {
            opt.marks.refuse("rocksdb_options_set_info_log");
        }
        Ok(())
    }
}

entry! {
    fn rocksdb_options_set_block_based_table_factory(
        opt: &mut rocksdb_options_t,
        table_options: maybe rocksdb_block_based_table_options_t,
    ) {
        if let Some(table) = table_options {
            opt.family.table_factory = table.options.clone();
            opt.block_cache.clone_from(&table.block_cache);
            opt.marks.add(&table.marks);
        }
        Ok(())
    }
}

/// The options of FIFO compaction.
#[derive(Default)]
pub(crate) struct rocksdb_fifo_compaction_options_t {
    pub(crate) options: FifoCompactionOptions,
    pub(crate) marks: Marks,
}

entry! {
    fn rocksdb_fifo_compaction_options_create() -> *mut rocksdb_fifo_compaction_options_t {
        Ok(give(rocksdb_fifo_compaction_options_t::default()))
    }
}

entry! {
    fn rocksdb_fifo_compaction_options_destroy(
        fifo_opts: own rocksdb_fifo_compaction_options_t,
    ) {
        drop(fifo_opts);
        Ok(())
    }
}

entry! {
    fn rocksdb_options_set_fifo_compaction_options(
        opt: &mut rocksdb_options_t,
        fifo: shared rocksdb_fifo_compaction_options_t,
    ) {
        opt.family.compaction_options_fifo = fifo.options.clone();
        opt.marks.add(&fifo.marks);
        Ok(())
    }
}

/// The options of universal compaction.
#[derive(Default)]
pub(crate) struct rocksdb_universal_compaction_options_t {
    pub(crate) options: UniversalCompactionOptions,
    pub(crate) marks: Marks,
}

entry! {
    fn rocksdb_universal_compaction_options_create()
        -> *mut rocksdb_universal_compaction_options_t
    {
        Ok(give(rocksdb_universal_compaction_options_t::default()))
    }
}

entry! {
    fn rocksdb_universal_compaction_options_destroy(
        uco: own rocksdb_universal_compaction_options_t,
    ) {
        drop(uco);
        Ok(())
    }
}

entry! {
    fn rocksdb_options_set_universal_compaction_options(
        opt: &mut rocksdb_options_t,
        uco: maybe rocksdb_universal_compaction_options_t,
    ) {
        if let Some(universal) = uco {
            opt.family.compaction_options_universal = universal.options.clone();
            opt.marks.add(&universal.marks);
        }
        Ok(())
    }
}

/// A directory for tables.
pub(crate) struct rocksdb_dbpath_t {
    path: DbPath,
}

entry! {
    fn rocksdb_dbpath_create(path: text, target_size: u64) -> *mut rocksdb_dbpath_t {
        let path = DbPath { path: PathBuf::from(self::path(path)), target_size };
        Ok(give(rocksdb_dbpath_t { path }))
    }
}

entry! {
    fn rocksdb_dbpath_destroy(dbpath: own rocksdb_dbpath_t) {
        drop(dbpath);
        Ok(())
    }
}

/// Returns the paths of an array.
///
/// # Safety
/// `paths` is an array of this length.
unsafe fn paths(paths: *mut *const rocksdb_dbpath_t, count: usize) -> Outcome<Vec<DbPath>> {
    // SAFETY: see above.
    let paths = unsafe { pointers(paths.cast_const(), count, "path_values")? };
    Ok(paths.into_iter().map(|path| path.path.clone()).collect())
}

entry! {
    fn rocksdb_options_set_db_paths(
        opt: &mut rocksdb_options_t,
        path_values: *mut *const rocksdb_dbpath_t,
        num_paths: usize,
    ) {
        // SAFETY: the caller passes an array of this length.
        opt.database.db_paths = unsafe { paths(path_values, num_paths)? };
        Ok(())
    }
}

entry! {
    fn rocksdb_options_set_cf_paths(
        opt: &mut rocksdb_options_t,
        path_values: *mut *const rocksdb_dbpath_t,
        num_paths: usize,
    ) {
        // SAFETY: the caller passes an array of this length.
        opt.family.cf_paths = unsafe { paths(path_values, num_paths)? };
        Ok(())
    }
}

entry! {
    fn rocksdb_options_set_compression_per_level(
        opt: &mut rocksdb_options_t,
        level_values: *const c_int,
        num_levels: usize,
    ) {
        // SAFETY: the caller passes an array of this length.
        let levels = unsafe { list(level_values, num_levels, "level_values")? };
        let mut compressions = vec![CompressionType::None; levels.len()];
        for (compression, &level) in compressions.iter_mut().zip(levels) {
            set(compression, level, &opt.marks)?;
        }
        opt.family.compression_per_level = compressions;
        Ok(())
    }
}

entry! {
    fn rocksdb_options_set_max_bytes_for_level_multiplier_additional(
        opt: &mut rocksdb_options_t,
        level_values: *mut c_int,
        num_levels: usize,
    ) {
        // SAFETY: the caller passes an array of this length.
        let levels = unsafe { list(level_values.cast_const(), num_levels, "level_values")? };
        opt.family.max_bytes_for_level_multiplier_additional = levels.to_vec();
        Ok(())
    }
}

entry! {
    fn rocksdb_options_set_min_level_to_compress(opt: &mut rocksdb_options_t, level: c_int) {
        let Ok(first) = usize::try_from(level) else { return Ok(()) };
        let count = usize::try_from(opt.family.num_levels).unwrap_or(0);
        let mut compressions = vec![opt.family.compression; count];
        compressions.iter_mut().take(first).for_each(|it| *it = CompressionType::None);
        opt.family.compression_per_level = compressions;
        Ok(())
    }
}

entry! {
    fn rocksdb_options_set_compression_options(
        opt: &mut rocksdb_options_t,
        w_bits: c_int,
        level: c_int,
        strategy: c_int,
        max_dict_bytes: c_int,
    ) {
        let compression = &mut opt.family.compression_opts;
        compression.window_bits = w_bits;
        compression.level = level;
        compression.strategy = strategy;
        set(&mut compression.max_dict_bytes, max_dict_bytes, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_bottommost_compression_options(
        opt: &mut rocksdb_options_t,
        w_bits: c_int,
        level: c_int,
        strategy: c_int,
        max_dict_bytes: c_int,
        enabled: c_uchar,
    ) {
        let compression = &mut opt.family.bottommost_compression_opts;
        compression.window_bits = w_bits;
        compression.level = level;
        compression.strategy = strategy;
        compression.enabled = enabled != 0;
        set(&mut compression.max_dict_bytes, max_dict_bytes, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_bottommost_compression_options_max_dict_buffer_bytes(
        opt: &mut rocksdb_options_t,
        max_dict_buffer_bytes: u64,
        enabled: c_uchar,
    ) {
        let compression = &mut opt.family.bottommost_compression_opts;
        compression.max_dict_buffer_bytes = max_dict_buffer_bytes;
        compression.enabled = enabled != 0;
        Ok(())
    }
}

entry! {
    fn rocksdb_options_set_bottommost_compression_options_use_zstd_dict_trainer(
        opt: &mut rocksdb_options_t,
        use_zstd_dict_trainer: c_uchar,
        enabled: c_uchar,
    ) {
        let compression = &mut opt.family.bottommost_compression_opts;
        compression.use_zstd_dict_trainer = use_zstd_dict_trainer != 0;
        compression.enabled = enabled != 0;
        Ok(())
    }
}

entry! {
    fn rocksdb_options_set_bottommost_compression_options_zstd_max_train_bytes(
        opt: &mut rocksdb_options_t,
        zstd_max_train_bytes: c_int,
        enabled: c_uchar,
    ) {
        let compression = &mut opt.family.bottommost_compression_opts;
        compression.enabled = enabled != 0;
        set(&mut compression.zstd_max_train_bytes, zstd_max_train_bytes, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_hash_skip_list_rep(
        opt: &mut rocksdb_options_t,
        bucket_count: usize,
        skiplist_height: i32,
        skiplist_branching_factor: i32,
    ) {
        let _ = (skiplist_height, skiplist_branching_factor);
        set_memtable(opt, &format!("prefix_hash:{bucket_count}"))
    }
}

entry! {
    fn rocksdb_options_set_hash_link_list_rep(opt: &mut rocksdb_options_t, bucket_count: usize) {
        set_memtable(opt, &format!("hash_linkedlist:{bucket_count}"))
    }
}

entry! {
    fn rocksdb_options_set_memtable_vector_rep(opt: &mut rocksdb_options_t) {
        set_memtable(opt, "vector")
    }
}

/// Stores the kind of memtables, which has no effect.
fn set_memtable(opt: &mut rocksdb_options_t, name: &str) -> Outcome<()> {
    opt.family.memtable_factory = ObjectName::new(name);
    Ok(())
}

entry! {
    fn rocksdb_options_calculate_sst_write_lifetime_hint_set_add(
        opt: &mut rocksdb_options_t,
        compaction_style: c_int,
    ) {
        CompactionStyle::from_c(compaction_style)
            .ok_or_else(|| Failure::invalid(format!("compaction style {compaction_style}")))?;
        opt.write_lifetime_hints.insert(compaction_style);
        Ok(())
    }
}

entry! {
    fn rocksdb_options_calculate_sst_write_lifetime_hint_set_remove(
        opt: &mut rocksdb_options_t,
        compaction_style: c_int,
    ) {
        opt.write_lifetime_hints.remove(&compaction_style);
        Ok(())
    }
}

entry! {
    fn rocksdb_options_calculate_sst_write_lifetime_hint_set_clear(opt: &mut rocksdb_options_t) {
        opt.write_lifetime_hints.clear();
        Ok(())
    }
}

entry! {
    fn rocksdb_options_calculate_sst_write_lifetime_hint_set_contains(
        opt: shared rocksdb_options_t,
        compaction_style: c_int,
    ) -> c_uchar {
        Ok(opt.write_lifetime_hints.contains(&compaction_style).into())
    }
}

entry! {
    fn rocksdb_options_calculate_sst_write_lifetime_hint_set_count(
        opt: shared rocksdb_options_t,
    ) -> usize {
        Ok(opt.write_lifetime_hints.len())
    }
}

entry! {
    fn rocksdb_options_checksum_handoff_file_types_add(
        opt: &mut rocksdb_options_t,
        file_type: c_int,
    ) {
        opt.checksum_handoff_types.insert(file_type);
        opt.marks.note("rocksdb_options_checksum_handoff_file_types_add");
        Ok(())
    }
}

entry! {
    fn rocksdb_options_checksum_handoff_file_types_remove(
        opt: &mut rocksdb_options_t,
        file_type: c_int,
    ) {
        opt.checksum_handoff_types.remove(&file_type);
        Ok(())
    }
}

entry! {
    fn rocksdb_options_checksum_handoff_file_types_clear(opt: &mut rocksdb_options_t) {
        opt.checksum_handoff_types.clear();
        Ok(())
    }
}

entry! {
    fn rocksdb_options_checksum_handoff_file_types_contains(
        opt: shared rocksdb_options_t,
        file_type: c_int,
    ) -> c_uchar {
        Ok(opt.checksum_handoff_types.contains(&file_type).into())
    }
}

entry! {
    fn rocksdb_options_checksum_handoff_file_types_count(opt: shared rocksdb_options_t) -> usize {
        Ok(opt.checksum_handoff_types.len())
    }
}
