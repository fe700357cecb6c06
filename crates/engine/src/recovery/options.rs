//! What a database is opened with.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::file_name::FileKind;
use tailwater_format::options_text::Document;
use tailwater_io::clock::SystemClock;
use tailwater_io::pace::RateLimiter;
use tailwater_io::posix::PosixStorage;
use tailwater_io::{Clock, IoMode, Purpose, Storage};

use crate::compaction::CompactionFilter;
use crate::directory::Home;
use crate::merge_operator::{FamilyMergeOperator, MergeOperator};
use crate::options::{
    self, CacheCapacity, ColumnFamilyOptions, DbOptions, FilterPolicy, Options, PinningTier,
    TailwaterOptions, UnknownOptions, sanitize_column_family, sanitize_database,
};
use crate::prefix_extractor::PrefixExtractor;
use crate::stats::Statistics;
use crate::table::{AutoReadAhead, BlockCache, Kept, MetaBlockPlacement};
use crate::version::manifest::{self, Manifest};
use crate::{Error, ErrorKind, Result};

use super::ATTEMPTS;

/// How large the block cache is where no option says, in bytes: RocksDB's default.
const DEFAULT_BLOCK_CACHE: usize = 32 << 20;
/// The comparator of a column family that says nothing of it.
const DEFAULT_COMPARATOR: &str = "leveldb.BytewiseComparator";

/// What a database is opened with: its options, and the objects of the user's that options can only
/// name.
///
/// Column families that are not named here are opened with RocksDB's defaults.
#[derive(Clone)]
pub struct OpenOptions {
    storage: Arc<dyn Storage>,
    database: DbOptions,
    families: Vec<(String, ColumnFamilyOptions)>,
    /// For families that are not named.
    other_families: ColumnFamilyOptions,
    comparators: Vec<Comparator>,
    merge_operators: Vec<MergeOperator>,
    prefix_extractors: Vec<PrefixExtractor>,
    compaction_filters: Vec<Arc<dyn CompactionFilter>>,
    block_cache: Option<Arc<BlockCache>>,
    clock: Arc<dyn Clock>,
    rate_limiter: Option<Arc<RateLimiter>>,
    statistics: Option<Arc<Statistics>>,
    inline_background: bool,
    adopts_directories: bool,
    /// Where relative paths begin, once the database is being opened; until then they are the
    /// system's to resolve.
    working_directory: PathBuf,
    /// What there is to warn of in what was loaded.
    warnings: Vec<String>,
    /// The option string to set over the OPTIONS file, where an opening is to read it.
    over_file: Option<String>,
}

impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenOptions")
            .field("storage", &self.storage)
            .field("database", &self.database)
            .field("families", &self.families)
            .field("other_families", &self.other_families)
            .finish_non_exhaustive()
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new(Arc::new(PosixStorage::new()))
    }
}

impl OpenOptions {
    /// RocksDB's defaults, for a database whose files are in `storage`.
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        Self {
            storage,
            database: DbOptions::default(),
            families: Vec::new(),
            other_families: ColumnFamilyOptions::default(),
            comparators: Vec::new(),
            merge_operators: Vec::new(),
            prefix_extractors: Vec::new(),
            compaction_filters: Vec::new(),
            block_cache: None,
            clock: Arc::new(SystemClock),
            rate_limiter: None,
            statistics: None,
            inline_background: false,
            adopts_directories: false,
            working_directory: PathBuf::new(),
            warnings: Vec::new(),
            over_file: None,
        }
    }

    /// The options that the newest OPTIONS file of a database says, and its `TAILWATER-OPTIONS`;
    /// the defaults where there is none.
    ///
    /// # Errors
    /// As [`OpenOptions::load_from`].
    pub fn load(directory: &Path) -> Result<Self> {
        Self::load_from(Arc::new(PosixStorage::new()), directory)
    }

    /// As [`OpenOptions::load`], for a database whose files are in `storage`. Names that are not
    /// known are passed over in a file that a newer version of RocksDB wrote.
    ///
    /// # Errors
    /// Corruption, with file and line, for a file that is none or has names or values that there
    /// are not; not supported, for values that switch on what is not built.
    pub fn load_from(storage: Arc<dyn Storage>, directory: &Path) -> Result<Self> {
        let mut attempts = 1..ATTEMPTS;
        loop {
            match Self::load_once(Arc::clone(&storage), directory) {
                // Whoever has the database open for writing may have replaced a file that was
                // there a moment ago.
                Err(error) if error.is_not_found() && attempts.next().is_some() => {
                    storage.list(directory)?;
                }
                loaded => return loaded,
            }
        }
    }

    fn load_once(storage: Arc<dyn Storage>, directory: &Path) -> Result<Self> {
        let mut loaded = Self::new(storage);
        let entries = loaded.storage.list(directory)?;
        let numbers = entries.iter().filter_map(|entry| match FileKind::parse(&entry.name) {
            Some(FileKind::Options(number)) => Some(number),
            _ => None,
        });
        if let Some(newest) = numbers.max() {
            let path = directory.join(FileKind::Options(newest).to_string());
            let options = read_options_file(&*loaded.storage, &path)?;
            loaded.database = options.database;
            loaded.families = options.column_families;
            loaded.check_recorded_wal_dir(directory)?;
        }
        let own = FileKind::TailwaterOptions.to_string();
        if entries.iter().any(|entry| entry.name == own) {
            loaded.database.tailwater = read_own_options(&*loaded.storage, &directory.join(own))?;
        }
        Ok(loaded)
    }

    /// Has the database opened with the options of its newest OPTIONS file and its
    /// `TAILWATER-OPTIONS`, and the option string `over` set over them as by
    /// [`OpenOptions::set_options`], instead of the options set here, which are those of a database
    /// that is made. The files are read once the lock is held, so that no change by another process
    /// is undone that [`OpenOptions::load`] would not have seen.
    ///
    /// Column families that the database does not have are left out, and so is `error_if_exists` of
    /// the file. [`Db::open`](crate::Db::open) then also fails as [`OpenOptions::load`] does.
    pub fn set_load_when_opened(&mut self, over: &str) {
        self.over_file = Some(over.to_owned());
    }

    /// Whether the options of the database's files are to be taken.
    pub(crate) fn loads_when_opened(&self) -> bool {
        self.over_file.is_some()
    }

    /// The options to open the database in `home` with: those of its files, if they are to be
    /// taken.
    pub(crate) fn loaded_when_opened(&self, home: &Path) -> Result<Self> {
        let Some(over) = &self.over_file else { return Ok(self.clone()) };
        let Self { database, families, other_families, warnings, .. } =
            Self::load_from(Arc::clone(&self.storage), home)?;
        // What the file says of databases that are there was said when this one was made.
        let database = DbOptions { error_if_exists: false, ..database };
        let mut loaded = Self { database, families, other_families, warnings, ..self.clone() };
        loaded.set_options(over)?;
        // The file may name column families that were dropped since, or never came to be.
        let families = manifest::current(&*self.storage, home)
            .and_then(|number| Manifest::read(&*self.storage, home, number))
            .map(|manifest| manifest.column_families);
        if let Ok(families) = families {
            let names: Vec<String> = families.into_values().map(|family| family.name).collect();
            loaded.retain_column_families(&names);
        }
        Ok(loaded)
    }

    /// Takes the home for the logs where the recorded `wal_dir` cannot be meant: it does not exist,
    /// or it is the home of another database. The latter is what older versions of RocksDB recorded
    /// of a database whose logs are in its home, and what is left of that in a copy.
    fn check_recorded_wal_dir(&mut self, home: &Path) -> Result<()> {
        let recorded = Path::new(&self.database.wal_dir);
        if recorded.as_os_str().is_empty() {
            return Ok(());
        }
        let why = match self.storage.identity(recorded) {
            Err(error) if error.is_not_found() => "does not exist",
            Err(error) => return Err(error.into()),
            Ok(identity) if identity == self.storage.identity(home)? => return Ok(()),
            Ok(_) => match self.storage.metadata(&recorded.join(FileKind::Current.to_string())) {
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(error.into()),
                Ok(_) => "is the home of another database",
            },
        };
        self.warnings.push(format!(
            "the recorded wal_dir {} {why}: the logs are expected in {}",
            recorded.display(),
            home.display()
        ));
        self.database.wal_dir.clear();
        Ok(())
    }

    /// Sets the options that an option string names, `name=value;name=value`, those of column
    /// families for all of them.
    ///
    /// # Errors
    /// Invalid argument, which names the option, for a string that is none, an unknown name or an
    /// impossible value. Nothing is changed then.
    pub fn set_options(&mut self, text: &str) -> Result<()> {
        let mut changed = self.clone();
        let refused = |error: options::Error| Error::invalid_argument(error.to_string());
        let mut database = self.database.clone();
        for (_, family) in &mut changed.families {
            options::set_options(&mut database, family, text).map_err(refused)?;
        }
        options::set_options(&mut changed.database, &mut changed.other_families, text)
            .map_err(refused)?;
        *self = changed;
        Ok(())
    }

    /// Sets the options of the database, for those that no option string says, such as `db_paths`.
    pub fn set_database(&mut self, options: DbOptions) {
        self.database = options;
    }

    /// Sets the options of one column family.
    pub fn set_column_family(&mut self, name: &str, options: ColumnFamilyOptions) {
        match self.families.iter_mut().find(|(family, _)| family == name) {
            Some((_, set)) => *set = options,
            None => self.families.push((name.to_owned(), options)),
        }
    }

    /// Makes a comparator of the user's known by its name. One under which keys of different bytes
    /// can be equal must declare so: see
    /// [`CustomComparator`](tailwater_format::comparator::CustomComparator).
    pub fn add_comparator(&mut self, comparator: Comparator) {
        self.comparators.push(comparator);
    }

    /// Makes a merge operator of the user's known by its name.
    pub fn add_merge_operator(&mut self, merge_operator: MergeOperator) {
        self.merge_operators.push(merge_operator);
    }

    /// Makes a prefix extractor of the user's known by its name.
    pub fn add_prefix_extractor(&mut self, prefix_extractor: PrefixExtractor) {
        self.prefix_extractors.push(prefix_extractor);
    }

    /// Keeps blocks in this cache, which databases and column families may share, instead of one
    /// that is made by the option `block_cache`.
    pub fn set_block_cache(&mut self, cache: Arc<BlockCache>) {
        self.block_cache = Some(cache);
    }

    /// Has the files elsewhere.
    pub(super) fn set_storage(&mut self, storage: Arc<dyn Storage>) {
        self.storage = storage;
    }

    /// Where the files are.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The database's options.
    pub fn database(&self) -> &DbOptions {
        &self.database
    }

    /// Makes a compaction filter of the user's known by its name, for column families whose option
    /// `compaction_filter` names it.
    pub fn add_compaction_filter(&mut self, filter: Arc<dyn CompactionFilter>) {
        self.compaction_filters.push(filter);
    }

    /// Makes flushes, and what else runs in the background, keep to a rate that they may share with
    /// other databases. It takes the place of `rate_limiter_bytes_per_sec`.
    pub fn set_rate_limiter(&mut self, rate_limiter: Arc<RateLimiter>) {
        self.rate_limiter = Some(rate_limiter);
    }

    /// Counts what the database does here, which databases may share. By default nothing is
    /// counted.
    pub fn set_statistics(&mut self, statistics: Arc<Statistics>) {
        self.statistics = Some(statistics);
    }

    /// Where what the database does is counted, if it is.
    pub fn statistics(&self) -> Option<&Arc<Statistics>> {
        self.statistics.as_ref()
    }

    /// Takes the time from this clock; by default from the system's.
    pub fn set_clock(&mut self, clock: Arc<dyn Clock>) {
        self.clock = clock;
    }

    /// Has background work done by the threads that ask for it, before their calls return, and
    /// starts no thread: for tests, so that the calls of a run repeat.
    pub fn set_inline_background(&mut self, inline: bool) {
        self.inline_background = inline;
    }

    /// Has directories in `wal_dir`, `db_paths` and `cf_paths` that another database has claimed be
    /// taken over. A database claims these directories when it is opened for writing, and they are
    /// refused to every other. Set this only where the other database is gone, or is this one,
    /// which was moved or restored from a copy; by default it is not set.
    pub fn set_adopt_directories(&mut self, adopt: bool) {
        self.adopts_directories = adopt;
    }

    /// Whether directories that another database has claimed are taken over.
    pub(crate) fn adopts_directories(&self) -> bool {
        self.adopts_directories
    }

    /// What there is to warn of in the options that were loaded.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Makes relative paths begin in the present working directory, whatever becomes of that later,
    /// and clears a `wal_dir` that is the home.
    pub(crate) fn resolve_paths(&mut self, home: &Home) -> Result<()> {
        self.working_directory = self.storage.canonical_path(Path::new("."))?;
        if self.database.wal_dir.is_empty() {
            return Ok(());
        }
        match self.storage.identity(&self.wal_directory(&home.path)) {
            Ok(identity) if identity == home.identity => self.database.wal_dir.clear(),
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
        Ok(())
    }

    /// Where a path of the options leads.
    pub(crate) fn resolved(&self, path: &Path) -> PathBuf {
        let mut begin = self.working_directory.as_path();
        let mut rest = path.components();
        // The working directory has no links, so what is above it is in its path. That way it may
        // be removed while the database is open.
        while let (Some(Component::ParentDir), Some(above)) = (rest.clone().next(), begin.parent())
        {
            begin = above;
            rest.next();
        }
        begin.join(rest.as_path())
    }

    /// Forgets the options of column families other than these, which a database does not have.
    pub fn retain_column_families(&mut self, names: &[String]) {
        self.families.retain(|(name, _)| names.contains(name));
    }

    /// The clock.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// What compactions of a column family ask about what they read.
    pub(crate) fn compaction_filter(&self, family: &str) -> Option<Arc<dyn CompactionFilter>> {
        let name = self.column_family(family).compaction_filter.id()?.to_owned();
        self.compaction_filters.iter().find(|filter| filter.name() == name).cloned()
    }

    /// The rate that background work keeps to, if there is one.
    pub(crate) fn rate_limiter(&self) -> Option<Arc<RateLimiter>> {
        /// How often the rate is made up for, in microseconds: RocksDB's default.
        const REFILL_PERIOD_US: u64 = 100_000;
        let rate = self.database.rate_limiter_bytes_per_sec;
        let own = || {
            let clock = Arc::clone(&self.clock);
            Arc::new(RateLimiter::new(rate, REFILL_PERIOD_US, clock, rate))
        };
        self.rate_limiter.clone().or_else(|| (rate > 0).then(own))
    }

    /// Whether the rate is that of a limiter which was given.
    pub(crate) fn has_own_rate_limiter(&self) -> bool {
        self.rate_limiter.is_some()
    }

    /// Whether the threads that ask for background work do it.
    pub(crate) fn inline_background(&self) -> bool {
        self.inline_background
    }

    /// The options of the column family of that name.
    pub fn column_family(&self, name: &str) -> &ColumnFamilyOptions {
        let named = self.families.iter().find(|(family, _)| family == name);
        named.map_or(&self.other_families, |(_, options)| options)
    }

    /// The names of the column families that have options of their own.
    pub fn column_families(&self) -> impl Iterator<Item = &str> {
        self.families.iter().map(|(name, _)| name.as_str())
    }

    /// The same with every value within its range.
    pub(crate) fn sanitized(&self, directory: &Path, read_only: bool) -> Self {
        let mut sanitized = self.clone();
        sanitize_database(&mut sanitized.database, directory);
        let families = sanitized.families.iter_mut().map(|(_, options)| options);
        for options in families.chain([&mut sanitized.other_families]) {
            sanitize_column_family(options, &sanitized.database, read_only);
        }
        sanitized
    }

    /// The order of a column family, which the MANIFEST says was written in that of name
    /// `recorded`.
    ///
    /// # Errors
    /// Invalid argument, where the options name another, or `recorded` is not known; not supported,
    /// for orders of keys with timestamps.
    pub(crate) fn comparator(&self, family: &str, recorded: &str) -> Result<Comparator> {
        if recorded.ends_with(".u64ts") {
            let feature = format!("user-defined timestamps (comparator '{recorded}')");
            return Err(Error::not_supported(feature));
        }
        let named = self.column_family(family).comparator.id().unwrap_or(DEFAULT_COMPARATOR);
        // A database that was made a moment ago, whose MANIFEST does not say yet.
        let recorded = if recorded.is_empty() { named } else { recorded };
        let is_named =
            self.families.iter().any(|(name, _)| name == family) || named != DEFAULT_COMPARATOR;
        if is_named && !same_comparator(named, recorded) {
            return Err(Error::invalid_argument(format!(
                "column family '{family}' was written with comparator '{recorded}', but the \
                 options say '{named}'"
            )));
        }
        let own = self.comparators.iter().find(|comparator| comparator.name() == recorded);
        own.cloned().or_else(|| Comparator::built_in(recorded)).ok_or_else(|| {
            Error::invalid_argument(format!(
                "column family '{family}' was written with comparator '{recorded}', which is not \
                 built in and was not supplied"
            ))
        })
    }

    /// How the operands of a column family fold.
    pub(crate) fn merge_operator(&self, family: &str) -> FamilyMergeOperator {
        let option = &self.column_family(family).merge_operator;
        let Some(name) = option.id() else { return FamilyMergeOperator::None };
        let own = self.merge_operators.iter().find(|operator| operator.name() == name);
        match own.cloned().or_else(|| MergeOperator::built_in(name)) {
            Some(MergeOperator::StringAppend { test_variant, delimiter }) => {
                let set = option.property("delimiter").map(String::into_bytes);
                let delimiter = set.unwrap_or(delimiter);
                FamilyMergeOperator::Known(MergeOperator::StringAppend { test_variant, delimiter })
            }
            Some(operator) => FamilyMergeOperator::Known(operator),
            None => FamilyMergeOperator::Unknown(name.to_owned()),
        }
    }

    /// What extracts the prefixes of a column family; none where it is one that nobody knows, so
    /// that no filter is asked about prefixes.
    pub(crate) fn prefix_extractor(&self, family: &str) -> Option<PrefixExtractor> {
        match &self.column_family(family).prefix_extractor {
            options::PrefixExtractor::None => None,
            options::PrefixExtractor::Fixed(length) => Some(PrefixExtractor::Fixed(*length)),
            options::PrefixExtractor::Capped(length) => Some(PrefixExtractor::Capped(*length)),
            options::PrefixExtractor::Noop => Some(PrefixExtractor::Noop),
            options::PrefixExtractor::Custom(name) => {
                self.prefix_extractors.iter().find(|own| own.name() == *name).cloned()
            }
        }
    }

    /// The directories that tables of a column family may be in, by path id. `home` is the
    /// database's own directory.
    pub(crate) fn table_directories(&self, home: &Path, family: &str) -> Vec<PathBuf> {
        let own = &self.column_family(family).cf_paths;
        let paths = if own.is_empty() { &self.database.db_paths } else { own };
        if paths.is_empty() {
            return vec![home.to_owned()];
        }
        paths.iter().map(|path| self.resolved(&path.path)).collect()
    }

    /// Every directory that tables or blob files of any column family may be in.
    pub(crate) fn all_table_directories(&self, home: &Path) -> Vec<PathBuf> {
        let paths = self.database.db_paths.iter().map(|path| self.resolved(&path.path));
        let mut all: Vec<PathBuf> = paths.collect();
        if all.is_empty() {
            all.push(home.to_owned());
        }
        for name in self.column_families().chain(["default"]) {
            all.extend(self.table_directories(home, name));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Every path at which the options expect files of the database, with the option that says so.
    pub(crate) fn outside_paths(&self, home: &Path) -> Vec<(&'static str, PathBuf)> {
        let mut paths = Vec::new();
        if !self.database.wal_dir.is_empty() {
            paths.push(("wal_dir", self.wal_directory(home)));
        }
        let of_database = self.database.db_paths.iter();
        paths.extend(of_database.map(|path| ("db_paths", self.resolved(&path.path))));
        let families = self.families.iter().map(|(_, options)| options);
        for options in families.chain([&self.other_families]) {
            let own = options.cf_paths.iter().filter(|path| {
                // What a column family takes over from the database.
                !self.database.db_paths.iter().any(|known| known.path == path.path)
            });
            paths.extend(own.map(|path| ("cf_paths", self.resolved(&path.path))));
        }
        paths
    }

    /// The directory of a column family's blob files: the first of those for tables.
    pub(crate) fn blob_directory(&self, home: &Path, family: &str) -> PathBuf {
        let directories = self.table_directories(home, family);
        directories.into_iter().next().unwrap_or_else(|| home.to_owned())
    }

    /// The directory of the write-ahead logs.
    pub(crate) fn wal_directory(&self, home: &Path) -> PathBuf {
        match self.database.wal_dir.as_str() {
            "" => home.to_owned(),
            own => self.resolved(Path::new(own)),
        }
    }

    /// The directory of the LOG where it is not the database's own.
    pub(crate) fn info_log_directory(&self) -> Option<PathBuf> {
        let directory = self.database.db_log_dir.as_str();
        (!directory.is_empty()).then(|| self.resolved(Path::new(directory)))
    }

    /// The cache for all column families that do not ask for one of their own size.
    pub(crate) fn shared_block_cache(&self) -> Arc<BlockCache> {
        let capacity = |name: &str| self.column_family(name).table_factory.block_cache;
        let mut names = self.column_families().chain(["default"]);
        let cache = match &self.block_cache {
            Some(shared) => Arc::clone(shared),
            None if names.any(|name| capacity(name) == CacheCapacity::Auto) => BlockCache::auto(),
            None => Arc::new(BlockCache::new(DEFAULT_BLOCK_CACHE)),
        };
        self.trimming(cache)
    }

    /// The cache, which trims the allocator if that is asked for.
    fn trimming(&self, cache: Arc<BlockCache>) -> Arc<BlockCache> {
        if self.database.tailwater.trim_allocator {
            cache.trim_allocator();
        }
        cache
    }

    /// The cache for a column family's blocks; none if its options want none.
    pub(crate) fn block_cache(
        &self,
        family: &str,
        shared: &Arc<BlockCache>,
    ) -> Option<Arc<BlockCache>> {
        let table = &self.column_family(family).table_factory;
        match table.block_cache {
            _ if table.no_block_cache => None,
            CacheCapacity::Bytes(bytes) if self.block_cache.is_none() => {
                Some(Arc::new(BlockCache::new(bytes as usize)))
            }
            // One for all of them.
            CacheCapacity::Auto if self.block_cache.is_none() && shared.auto_sizes().is_none() => {
                Some(self.trimming(BlockCache::auto()))
            }
            _ => Some(Arc::clone(shared)),
        }
    }

    /// Where the index and filter blocks of a column family's tables live.
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

    /// How iterators over a column family read ahead that are not told how.
    pub(crate) fn auto_read_ahead(&self, family: &str) -> AutoReadAhead {
        let table = &self.column_family(family).table_factory;
        AutoReadAhead {
            after_reads: table.num_file_reads_for_auto_readahead,
            initial_bytes: table.initial_auto_readahead_size as usize,
            max_bytes: table.max_auto_readahead_size as usize,
        }
    }

    /// Whether a column family asks the filters that its tables have.
    pub(crate) fn uses_filters(&self, family: &str) -> bool {
        self.column_family(family).table_factory.filter_policy != FilterPolicy::None
    }
}

/// Whether two names stand for one order: the bytewise one has two.
fn same_comparator(a: &str, b: &str) -> bool {
    let bytewise = |name| matches!(name, DEFAULT_COMPARATOR | "rocksdb.BytewiseComparator");
    a == b || (bytewise(a) && bytewise(b))
}

fn read_options_file(storage: &dyn Storage, path: &Path) -> Result<Options> {
    let text = read_text(storage, path)?;
    let document =
        Document::parse(&text).map_err(|error| Error::corruption(path, error.to_string()))?;
    Options::from_document(&document, UnknownOptions::IgnoreFromNewer)
        .map_err(|error| not_accepted(&error, path))
}

fn read_own_options(storage: &dyn Storage, path: &Path) -> Result<TailwaterOptions> {
    let text = read_text(storage, path)?;
    TailwaterOptions::from_text(&text).map_err(|error| not_accepted(&error, path))
}

/// Why a file of options is not accepted.
fn not_accepted(error: &options::Error, path: &Path) -> Error {
    let kind = match error.problem {
        options::Problem::Refused { .. } => ErrorKind::NotSupported,
        _ => ErrorKind::Corruption,
    };
    Error::new(kind, error.to_string()).in_file(path)
}

fn read_text(storage: &dyn Storage, path: &Path) -> Result<String> {
    let file = storage.open(path, IoMode::Buffered, Purpose::Metadata)?;
    let mut bytes = vec![0; file.length()? as usize];
    let count = file.read_full_at(&mut bytes, 0, Purpose::Metadata)?;
    bytes.truncate(count);
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to() as u64;
        Error::corruption_at(path, offset, "a file of options that is not UTF-8")
    })
}
