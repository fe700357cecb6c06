//! Creates or finds the objects that options name or describe: comparators, merge operators,
//! caches, rate limiters. Refuses names of objects that the user did not register.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_io::pace::{OpType, RateLimiter};
use tailwater_io::{LimitedReads, Storage};

use crate::block_cache::{BlockCache, CacheCharges};
use crate::compaction_filter::CompactionFilter;
use crate::error::{Error, Result};
use crate::merge_operator::{FamilyMergeOperator, MergeOperator};
use crate::options::{
    self, CacheCapacity, CacheEntryRoleDecision, ColumnFamilyOptions, DEFAULT_CACHE_CAPACITY,
    FilterPolicy, PinningTier,
};
use crate::prefix_extractor::PrefixExtractor;
use crate::stats::Statistics;
use crate::table::{AutoReadAhead, Kept, MetaBlockPlacement};
use crate::write_buffer_manager::WriteBufferManager;

use super::OpenOptions;

/// The comparator of a column family whose options do not name one.
const DEFAULT_COMPARATOR: &str = "leveldb.BytewiseComparator";

/// The kind of a user-defined object without which a column family can be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    MergeOperator,
    CompactionFilter,
    PrefixExtractor,
}

impl ObjectKind {
    /// Returns the name of the option that names such an object.
    fn option(self) -> &'static str {
        match self {
            Self::MergeOperator => "merge_operator",
            Self::CompactionFilter => "compaction_filter",
            Self::PrefixExtractor => "prefix_extractor",
        }
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MergeOperator => "merge operator",
            Self::CompactionFilter => "compaction filter",
            Self::PrefixExtractor => "prefix extractor",
        })
    }
}

/// Objects of one column family. Its options name those that have names; another column family may
/// have other objects with the same names.
#[derive(Debug, Clone, Default)]
pub struct FamilyObjects {
    /// The comparator.
    pub comparator: Option<Comparator>,
    /// The merge operator.
    pub merge_operator: Option<MergeOperator>,
    /// The prefix extractor.
    pub prefix_extractor: Option<PrefixExtractor>,
    /// The compaction filter.
    pub compaction_filter: Option<CompactionFilter>,
    /// The block cache, which takes precedence over that of [`OpenOptions::set_block_cache`] and
    /// over the option `block_cache`.
    pub block_cache: Option<Arc<BlockCache>>,
}

impl OpenOptions {
    /// Gives a column family objects of its own. They take precedence over registered and built-in
    /// objects with the same names.
    pub fn set_family_objects(&mut self, family: &str, objects: FamilyObjects) -> &mut Self {
        self.family_objects.insert(family.to_owned(), objects);
        self
    }

    /// Removes a column family's own objects, if there are any.
    pub(crate) fn remove_family_objects(&mut self, family: &str) {
        self.family_objects.remove(family);
    }

    /// Returns the kinds and names of the objects that the options of the column family `family`
    /// name but that are neither its own nor registered nor built in.
    pub(crate) fn missing_objects<'a>(
        &'a self,
        family: &'a str,
        options: &'a ColumnFamilyOptions,
    ) -> impl Iterator<Item = (ObjectKind, &'a str)> {
        named_objects(options).filter(move |&(kind, name)| match kind {
            ObjectKind::MergeOperator => self.find_merge_operator(family, name).is_none(),
            ObjectKind::CompactionFilter => self.find_compaction_filter(family, name).is_none(),
            ObjectKind::PrefixExtractor => self.find_prefix_extractor(family, name).is_none(),
        })
    }

    /// Refuses options of the column family `family` that name an object which is neither built in
    /// nor registered, so that a misspelt name does not silently switch a filter off. Objects that
    /// [`OpenOptions::record_objects`] found may be missing.
    ///
    /// # Errors
    /// Invalid argument, naming the option and the object.
    pub(crate) fn check_objects(&self, family: &str, options: &ColumnFamilyOptions) -> Result<()> {
        let is_recorded = |&(kind, name): &(ObjectKind, &str)| {
            self.recorded_objects.iter().any(|(known, its)| *known == kind && its == name)
        };
        match self.missing_objects(family, options).find(|missing| !is_recorded(missing)) {
            None => Ok(()),
            Some((kind, name)) => Err(Error::invalid_argument(format!(
                "column family '{family}': option {} names '{name}', which is neither built in nor \
                 registered",
                kind.option()
            ))),
        }
    }

    /// Records the objects that the OPTIONS file of the database in `home` names: a program may
    /// open a database without having the objects of the program that created it. Without a
    /// readable OPTIONS file, no object is recorded.
    pub(crate) fn record_objects(&mut self, home: &Path) {
        let Ok(loaded) = Self::load_from(Arc::clone(&self.storage), home) else { return };
        let named = loaded.families.iter().flat_map(|(_, options)| named_objects(options));
        self.recorded_objects = named.map(|(kind, name)| (kind, name.to_owned())).collect();
    }

    /// Returns the objects of a kind that the column family `family` may use: first its own, which
    /// `own` returns.
    fn objects<'a, T>(
        &'a self,
        family: &str,
        own: impl Fn(&'a FamilyObjects) -> Option<&'a T>,
        registered: &'a [T],
    ) -> impl Iterator<Item = &'a T> {
        self.family_objects.get(family).and_then(own).into_iter().chain(registered)
    }

    fn find_merge_operator(&self, family: &str, name: &str) -> Option<MergeOperator> {
        let mut known =
            self.objects(family, |it| it.merge_operator.as_ref(), &self.merge_operators);
        known
            .find(|operator| operator.name() == name)
            .cloned()
            .or_else(|| MergeOperator::built_in(name))
    }

    fn find_compaction_filter(&self, family: &str, name: &str) -> Option<CompactionFilter> {
        let mut known =
            self.objects(family, |it| it.compaction_filter.as_ref(), &self.compaction_filters);
        known
            .find(|filter| filter.name() == name)
            .cloned()
            .or_else(|| CompactionFilter::built_in(name))
    }

    fn find_prefix_extractor(&self, family: &str, name: &str) -> Option<PrefixExtractor> {
        let mut known =
            self.objects(family, |it| it.prefix_extractor.as_ref(), &self.prefix_extractors);
        known.find(|extractor| extractor.name() == name).cloned()
    }

    fn find_comparator(&self, family: &str, name: &str) -> Option<Comparator> {
        let mut known = self.objects(family, |it| it.comparator.as_ref(), &self.comparators);
        known
            .find(|comparator| comparator.name() == name)
            .cloned()
            .or_else(|| Comparator::built_in(name))
    }

    /// Returns the compaction filter that a column family's options name, if it is registered or
    /// built in.
    pub(crate) fn compaction_filter(&self, family: &str) -> Option<CompactionFilter> {
        self.find_compaction_filter(family, self.column_family(family).compaction_filter.id()?)
    }

    /// Returns the rate limiter of flushes and compactions, if there is one.
    pub(crate) fn rate_limiter(&self) -> Option<Arc<RateLimiter>> {
        let rate = self.database.rate_limiter_bytes_per_sec;
        let own = || Arc::new(RateLimiter::new(rate).with_clock(Arc::clone(self.clock())));
        self.rate_limiter.clone().or_else(|| (rate > 0).then(own))
    }

    /// Returns `storage`, with a limit of the rate at which compactions read, and reads for users
    /// with a priority, if the user's rate limiter limits reads.
    pub(crate) fn limiting_reads(&self, storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
        match &self.rate_limiter {
            Some(limiter) if limiter.mode().limits(OpType::Read) => {
                let statistics = self.statistics.clone();
                let limiter = Statistics::counting(Arc::clone(limiter), statistics);
                Arc::new(LimitedReads::new(storage, limiter))
            }
            _ => storage,
        }
    }

    /// Whether the user supplied the rate limiter as an object.
    pub(crate) fn has_own_rate_limiter(&self) -> bool {
        self.rate_limiter.is_some()
    }

    /// Returns a column family's comparator. `recorded` is the comparator's name in the MANIFEST.
    ///
    /// # Errors
    /// - Invalid argument: the options name another comparator than `recorded`, or `recorded` is
    ///   neither built in nor registered.
    /// - Not supported: the comparator is for keys with timestamps.
    pub(crate) fn comparator(&self, family: &str, recorded: &str) -> Result<Comparator> {
        if recorded.ends_with(".u64ts") {
            let feature = format!("user-defined timestamps (comparator '{recorded}')");
            return Err(Error::not_supported(feature));
        }
        let named = self.column_family(family).comparator.id().unwrap_or(DEFAULT_COMPARATOR);
        // A new database's MANIFEST does not name a comparator yet.
        let recorded = if recorded.is_empty() { named } else { recorded };
        let is_named =
            self.families.iter().any(|(name, _)| name == family) || named != DEFAULT_COMPARATOR;
        if is_named && !same_comparator(named, recorded) {
            return Err(Error::invalid_argument(format!(
                "column family '{family}' was written with comparator '{recorded}', but the \
                 options say '{named}'"
            )));
        }
        self.find_comparator(family, recorded).ok_or_else(|| {
            Error::invalid_argument(format!(
                "column family '{family}' was written with comparator '{recorded}', which is \
                 neither built in nor registered"
            ))
        })
    }

    /// Returns the comparator that the options of the new column family `family` name.
    pub(crate) fn new_comparator(
        &self,
        family: &str,
        options: &ColumnFamilyOptions,
    ) -> Result<Comparator> {
        let name = options.comparator.id().unwrap_or(DEFAULT_COMPARATOR);
        self.find_comparator(family, name).ok_or_else(|| {
            let message = format!("comparator '{name}' is neither built in nor registered");
            Error::invalid_argument(message)
        })
    }

    /// Returns the merge operator of a column family.
    pub(crate) fn merge_operator(&self, family: &str) -> FamilyMergeOperator {
        let option = &self.column_family(family).merge_operator;
        let Some(name) = option.id() else { return FamilyMergeOperator::None };
        match self.find_merge_operator(family, name) {
            Some(MergeOperator::StringAppend { test_variant, delimiter }) => {
                let set = option.property("delimiter").map(String::into_bytes);
                let delimiter = set.unwrap_or(delimiter);
                FamilyMergeOperator::Known(MergeOperator::StringAppend { test_variant, delimiter })
            }
            Some(operator) => FamilyMergeOperator::Known(operator),
            None => FamilyMergeOperator::Unknown(name.to_owned()),
        }
    }

    /// Returns the prefix extractor of a column family. Returns `None` also if the options name one
    /// that is not registered; prefix filters are then not used.
    pub(crate) fn prefix_extractor(&self, family: &str) -> Option<PrefixExtractor> {
        match &self.column_family(family).prefix_extractor {
            options::PrefixExtractor::None => None,
            options::PrefixExtractor::Fixed(length) => Some(PrefixExtractor::Fixed(*length)),
            options::PrefixExtractor::Capped(length) => Some(PrefixExtractor::Capped(*length)),
            options::PrefixExtractor::Noop => Some(PrefixExtractor::Noop),
            options::PrefixExtractor::Custom(name) => self.find_prefix_extractor(family, name),
        }
    }

    /// Returns what limits the memory of the memtables: the write buffer manager of the user or, if
    /// the option `db_write_buffer_size` is set, a new one of this database. Returns `None` if
    /// there is no limit.
    pub(crate) fn write_buffer_manager(&self) -> Option<Arc<WriteBufferManager>> {
        let size = self.database.db_write_buffer_size;
        let own = || Arc::new(WriteBufferManager::new(size as usize, false));
        self.write_buffer_manager.clone().or_else(|| (size > 0).then(own))
    }

    /// Returns the limit of the user's write buffer manager, in bytes; 0 if there is none.
    pub(crate) fn shared_write_buffer_limit(&self) -> u64 {
        self.write_buffer_manager.as_ref().map_or(0, |manager| manager.buffer_size() as u64)
    }

    /// Returns the block cache that column families share, if their options do not give them a
    /// cache of their own.
    pub(crate) fn shared_block_cache(&self) -> Arc<BlockCache> {
        let capacity = |name: &str| self.column_family(name).table_factory.block_cache;
        let mut names = self.column_families().chain(["default"]);
        let cache = match &self.block_cache {
            Some(shared) => Arc::clone(shared),
            None if names.any(|name| capacity(name) == CacheCapacity::Auto) => BlockCache::auto(),
            None => Arc::new(BlockCache::new(DEFAULT_CACHE_CAPACITY as usize)),
        };
        self.trimming(cache)
    }

    fn own_block_cache(&self, family: &str) -> Option<&Arc<BlockCache>> {
        self.family_objects.get(family)?.block_cache.as_ref()
    }

    /// Returns `cache`. If option `trim_allocator` is set, makes the C library's allocator release
    /// freed memory to the system whenever the cache shrinks.
    fn trimming(&self, cache: Arc<BlockCache>) -> Arc<BlockCache> {
        if self.database.tailwater.trim_allocator {
            cache.trim_allocator();
        }
        cache
    }

    /// Returns the block cache of a column family; `None` if `no_block_cache` is set.
    pub(crate) fn block_cache(
        &self,
        family: &str,
        shared: &Arc<BlockCache>,
    ) -> Option<Arc<BlockCache>> {
        let table = &self.column_family(family).table_factory;
        if table.no_block_cache {
            return None;
        }
        if let Some(own) = self.own_block_cache(family) {
            return Some(self.trimming(Arc::clone(own)));
        }
        match table.block_cache {
            CacheCapacity::Bytes(bytes) if self.block_cache.is_none() => {
                Some(Arc::new(BlockCache::new(bytes as usize)))
            }
            CacheCapacity::Strict(bytes) if self.block_cache.is_none() => {
                let cache = BlockCache::new(bytes as usize);
                cache.set_strict_capacity_limit(true);
                Some(Arc::new(cache))
            }
            // The shared cache has a fixed size, but this column family asks for a cache that
            // resizes itself. So it gets its own.
            CacheCapacity::Auto if self.block_cache.is_none() && shared.auto_sizes().is_none() => {
                Some(self.trimming(BlockCache::auto()))
            }
            _ => Some(Arc::clone(shared)),
        }
    }

    /// Returns the uses of memory outside `cache`, a column family's block cache, that are charged
    /// to it.
    pub(crate) fn cache_charges(
        &self,
        family: &str,
        cache: Option<&Arc<BlockCache>>,
    ) -> CacheCharges {
        let roles = &self.column_family(family).table_factory.cache_usage_options;
        let charged = |role| cache.filter(|_| role == CacheEntryRoleDecision::Enabled).cloned();
        CacheCharges {
            filters: charged(roles.filter_construction),
            readers: charged(roles.block_based_table_reader),
            files: charged(roles.file_metadata),
        }
    }

    /// Returns where the index and filter blocks of a column family's tables are kept: with their
    /// tables or in the block cache, and which of them are pinned there.
    pub(crate) fn meta_block_placement(&self, family: &str) -> MetaBlockPlacement {
        let table = &self.column_family(family).table_factory;
        let high_priority = table.cache_index_and_filter_blocks_with_high_priority;
        if !table.cache_index_and_filter_blocks {
            return MetaBlockPlacement { high_priority, ..MetaBlockPlacement::WITH_TABLE };
        }
        let kept = |tier, fallback| match tier {
            PinningTier::None => Kept::Never,
            PinningTier::FlushedAndSimilar => Kept::InLevel0,
            PinningTier::All => Kept::Always,
            PinningTier::Fallback => fallback,
        };
        let in_level_0 = table.pin_l0_filter_and_index_blocks_in_cache;
        let whole = if in_level_0 { Kept::InLevel0 } else { Kept::Never };
        let roots = if table.pin_top_level_index_and_filter { Kept::Always } else { whole };
        let tiers = &table.metadata_cache_options;
        MetaBlockPlacement {
            roots: kept(tiers.top_level_index_pinning, roots),
            whole: kept(tiers.unpartitioned_pinning, whole),
            high_priority,
        }
    }

    /// Returns the automatic readahead of iterators whose read options do not set `readahead_size`.
    pub(crate) fn auto_read_ahead(&self, family: &str) -> AutoReadAhead {
        let table = &self.column_family(family).table_factory;
        AutoReadAhead {
            after_reads: table.num_file_reads_for_auto_readahead,
            initial_bytes: table.initial_auto_readahead_size as usize,
            max_bytes: table.max_auto_readahead_size as usize,
        }
    }

    /// Whether reads of a column family check the filters in its tables.
    pub(crate) fn uses_filters(&self, family: &str) -> bool {
        self.column_family(family).table_factory.filter_policy != FilterPolicy::None
    }
}

/// Returns the kinds and names of the objects of each [`ObjectKind`] that a column family's options
/// name.
fn named_objects(options: &ColumnFamilyOptions) -> impl Iterator<Item = (ObjectKind, &str)> {
    let prefix_extractor = match &options.prefix_extractor {
        options::PrefixExtractor::Custom(name) => Some(name.as_str()),
        _ => None,
    };
    let named = [
        (ObjectKind::MergeOperator, options.merge_operator.id()),
        (ObjectKind::CompactionFilter, options.compaction_filter.id()),
        (ObjectKind::PrefixExtractor, prefix_extractor),
    ];
    named.into_iter().filter_map(|(kind, name)| Some((kind, name?)))
}

/// Whether two names denote the same comparator: the bytewise comparator has two names.
fn same_comparator(a: &str, b: &str) -> bool {
    let bytewise = |name| matches!(name, DEFAULT_COMPARATOR | "rocksdb.BytewiseComparator");
    a == b || (bytewise(a) && bytewise(b))
}
