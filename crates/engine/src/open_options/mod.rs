//! The options of an open call, and the user's objects that options refer to by name.
//!
//! [`load`] reads the options that the database's files record, [`directories`] derives directories
//! from the options, [`objects`] creates or finds the objects that options name, and
//! [`without_effect`] lists the options that have no effect.

mod current;
mod directories;
mod files;
mod load;
mod objects;
mod without_effect;

pub(crate) use current::CurrentOptions;
pub(crate) use files::OptionsFiles;
pub use objects::FamilyObjects;
pub(crate) use objects::ObjectKind;
pub use without_effect::OptionWithoutEffect;
pub(crate) use without_effect::{database_options_without_effect, listed};

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_io::pace::RateLimiter;
use tailwater_io::posix::PosixStorage;
use tailwater_io::{Clock, DescriptorBudget, Storage};

use crate::block_cache::BlockCache;
use crate::compaction_filter::CompactionFilter;
use crate::env::{Env, Needs};
use crate::error::{Error, Result};
use crate::merge_operator::MergeOperator;
use crate::options::{
    self, ColumnFamilyOptions, DbOptions, SetOptions, sanitize_column_family, sanitize_database,
    unset_derived_of_database, unset_derived_of_family,
};
use crate::prefix_extractor::PrefixExtractor;
use crate::sst_file_manager::SstFileManager;
use crate::stats::Statistics;
use crate::write_buffer_manager::WriteBufferManager;

/// Everything that [`Db::open`](crate::Db::open) takes: the options of the database and of its
/// column families, and the user's objects (comparators, merge operators, caches) that an option
/// can only refer to by name.
///
/// A column family without options of its own is opened with the options that
/// [`OpenOptions::set_from_string`] and [`OpenOptions::other_column_families_mut`] set for all such
/// families; by default these are RocksDB's defaults. Options that contradict each other, or that
/// name objects that are not registered, are refused when the database is opened, whether they were
/// set by name or by field.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// use tailwater::{Db, MergeOperator, OpenOptions};
///
/// let mut options = OpenOptions::default();
/// options.set_from_string("create_if_missing=true;max_background_jobs=4;compression=kZSTD")?;
/// // One column family gets options of its own. It is created if the database lacks it.
/// options.set_from_string("create_missing_column_families=true")?;
/// let counters = "merge_operator=uint64add;write_buffer_size=8M";
/// options.set_column_family_from_string("counters", counters)?;
/// assert!(MergeOperator::built_in("uint64add").is_some(), "it need not be registered");
///
/// let db = Db::open(directory, &options)?;
/// let counters = db.cf_handle("counters")?;
/// assert_eq!(counters.options().write_buffer_size, 8 << 20);
/// # Ok(())
/// # }
/// ```
///
/// The same options as fields, which the compiler checks:
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// use tailwater::options::{CompressionType, ObjectName};
/// use tailwater::{Db, OpenOptions};
///
/// let mut options = OpenOptions::default();
/// let database = options.database_mut();
/// database.create_if_missing = true;
/// database.create_missing_column_families = true;
/// database.max_background_jobs = 4;
/// // Must come before the options of single column families, which begin with a copy of these
/// // options.
/// options.other_column_families_mut().compression = CompressionType::Zstd;
/// let counters = options.column_family_mut("counters");
/// counters.merge_operator = ObjectName::new("uint64add");
/// counters.write_buffer_size = 8 << 20;
///
/// let db = Db::open(directory, &options)?;
/// let counters = db.cf_handle("counters")?.options();
/// assert_eq!(counters.write_buffer_size, 8 << 20);
/// assert_eq!(counters.compression, CompressionType::Zstd);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct OpenOptions {
    storage: Arc<dyn Storage>,
    database: DbOptions,
    families: Vec<(String, ColumnFamilyOptions)>,
    /// The options of the column families that are not in `families`.
    other_families: ColumnFamilyOptions,
    comparators: Vec<Comparator>,
    merge_operators: Vec<MergeOperator>,
    prefix_extractors: Vec<PrefixExtractor>,
    compaction_filters: Vec<CompactionFilter>,
    /// The objects of single column families, by the column family's name.
    family_objects: BTreeMap<String, FamilyObjects>,
    block_cache: Option<Arc<BlockCache>>,
    row_cache: Option<Arc<BlockCache>>,
    write_buffer_manager: Option<Arc<WriteBufferManager>>,
    env: Env,
    rate_limiter: Option<Arc<RateLimiter>>,
    sst_file_manager: Option<Arc<SstFileManager>>,
    statistics: Option<Arc<Statistics>>,
    inline_background: bool,
    adopts_directories: bool,
    /// The directory to which relative paths in the options refer. Empty until the open call sets
    /// it.
    working_directory: PathBuf,
    /// Warnings about options that were loaded from the database's files.
    warnings: Vec<String>,
    /// The objects that the database's OPTIONS file names, if the open call had to look there for
    /// unregistered objects. See [`OpenOptions::check_objects`].
    recorded_objects: Vec<(ObjectKind, String)>,
    /// If set, the open call loads the options from the database's files and applies these on top
    /// of them. See [`OpenOptions::set_load_when_opened`].
    over_file: Option<Overrides>,
    /// If these options were sanitized: the options as they were set.
    as_set: Option<Box<OpenOptions>>,
}

/// An option string that is applied on top of the options that a database's files record.
#[derive(Debug, Clone)]
struct Overrides {
    text: String,
    /// The column family to which the options of column families apply; `None` for all.
    family: Option<String>,
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
        Self::with_storage(Arc::new(PosixStorage::new()))
    }
}

impl OpenOptions {
    /// Returns RocksDB's default options, for a database in the system's files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns RocksDB's default options, for a database in `storage`.
    pub fn with_storage(storage: Arc<dyn Storage>) -> Self {
        Self {
            storage,
            database: DbOptions::default(),
            families: Vec::new(),
            other_families: ColumnFamilyOptions::default(),
            comparators: Vec::new(),
            merge_operators: Vec::new(),
            prefix_extractors: Vec::new(),
            compaction_filters: Vec::new(),
            family_objects: BTreeMap::new(),
            block_cache: None,
            row_cache: None,
            write_buffer_manager: None,
            env: Env::of_process(),
            rate_limiter: None,
            sst_file_manager: None,
            statistics: None,
            inline_background: false,
            adopts_directories: false,
            working_directory: PathBuf::new(),
            warnings: Vec::new(),
            recorded_objects: Vec::new(),
            over_file: None,
            as_set: None,
        }
    }

    /// Sets whether the open call creates the database if it does not exist. Default: false.
    pub fn create_if_missing(&mut self, create: bool) -> &mut Self {
        self.database.create_if_missing = create;
        self
    }

    /// Sets whether the open call creates the column families that have options of their own and do
    /// not exist. Default: false.
    pub fn create_missing_column_families(&mut self, create: bool) -> &mut Self {
        self.database.create_missing_column_families = create;
        self
    }

    /// Applies an option string of the form `name=value;name=value`. Options of column families
    /// apply to every column family.
    ///
    /// # Errors
    /// Invalid argument, naming the option: the string is malformed, a name is unknown, or a value
    /// is out of range. No option is changed then.
    pub fn set_from_string(&mut self, text: &str) -> Result<()> {
        let mut changed = self.clone();
        let mut database = self.database.clone();
        for (_, family) in &mut changed.families {
            options::set_from_string(&mut database, family, text)?;
        }
        options::set_from_string(&mut changed.database, &mut changed.other_families, text)?;
        *self = changed;
        Ok(())
    }

    /// Applies an option string to one column family. The open call then also opens this column
    /// family, and creates it if it is missing and `create_missing_column_families` is set.
    ///
    /// # Errors
    /// Invalid argument, naming the option: for the reasons that [`OpenOptions::set_from_string`]
    /// lists, or because the option belongs to the whole database. No option is changed then.
    pub fn set_column_family_from_string(&mut self, name: &str, text: &str) -> Result<()> {
        let (mut database, mut family) = (self.database.clone(), self.column_family(name).clone());
        options::set_from_string(&mut database, &mut family, text)?;
        if let Some(option) = options::database_option_in(text)? {
            let message = format!("option {option} belongs to the database");
            return Err(Error::invalid_argument(message));
        }
        self.set_column_family(name, family);
        Ok(())
    }

    /// Replaces the database options.
    pub fn set_database(&mut self, options: DbOptions) -> &mut Self {
        self.database = options;
        self
    }

    /// Returns a mutable reference to the database options.
    pub fn database_mut(&mut self) -> &mut DbOptions {
        &mut self.database
    }

    /// Replaces the options of one column family. The open call then also opens this column family,
    /// and creates it if it is missing and `create_missing_column_families` is set.
    pub fn set_column_family(&mut self, name: &str, options: ColumnFamilyOptions) -> &mut Self {
        *self.column_family_mut(name) = options;
        self
    }

    /// Returns a mutable reference to the options of one column family. If the column family does
    /// not have options of its own yet, it gets a copy of those that apply to unnamed column
    /// families; the open call then opens or creates it as described at
    /// [`OpenOptions::set_column_family`].
    pub fn column_family_mut(&mut self, name: &str) -> &mut ColumnFamilyOptions {
        let found = self.families.iter().position(|(family, _)| family == name);
        let index = found.unwrap_or_else(|| {
            self.families.push((name.to_owned(), self.other_families.clone()));
            self.families.len() - 1
        });
        &mut self.families[index].1
    }

    /// Removes the options and objects of one column family, if there are any. The column family
    /// then gets the options of all unnamed column families. Needed if a column family was dropped
    /// after [`OpenOptions::load`] had loaded its options: opening would create it again or fail.
    pub fn remove_column_family(&mut self, name: &str) -> &mut Self {
        self.families.retain(|(family, _)| family != name);
        self.remove_family_objects(name);
        if let Some(as_set) = &mut self.as_set {
            as_set.remove_column_family(name);
        }
        self
    }

    /// Returns a mutable reference to the options of all column families that do not have options
    /// of their own. Changes through it do not affect column families that have options of their
    /// own. [`OpenOptions::set_from_string`], by contrast, changes those, too.
    pub fn other_column_families_mut(&mut self) -> &mut ColumnFamilyOptions {
        &mut self.other_families
    }

    /// Registers a comparator under its name. If the comparator can treat keys with different bytes
    /// as equal, it must declare this; see
    /// [`CustomComparator`](tailwater_format::comparator::CustomComparator).
    pub fn add_comparator(&mut self, comparator: Comparator) -> &mut Self {
        self.comparators.push(comparator);
        self
    }

    /// Registers a merge operator under its name.
    pub fn add_merge_operator(&mut self, merge_operator: MergeOperator) -> &mut Self {
        self.merge_operators.push(merge_operator);
        self
    }

    /// Registers a prefix extractor under its name.
    pub fn add_prefix_extractor(&mut self, prefix_extractor: PrefixExtractor) -> &mut Self {
        self.prefix_extractors.push(prefix_extractor);
        self
    }

    /// Sets the block cache, which several databases and column families may share. It takes
    /// precedence over the option `block_cache`.
    pub fn set_block_cache(&mut self, cache: Arc<BlockCache>) -> &mut Self {
        self.block_cache = Some(cache);
        self
    }

    /// Sets the row cache: the results of gets and multi-gets in tables are kept there, so that the
    /// next get of the key need not search the tables again. Databases may share it, and it may
    /// also be their block cache. By default, there is none. As in RocksDB, a database with a row
    /// cache refuses to delete ranges.
    ///
    /// ```
    /// # fn main() -> tailwater::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// use std::sync::Arc;
    /// use tailwater::{BlockCache, Db, OpenOptions};
    ///
    /// let rows = Arc::new(BlockCache::new(16 << 20));
    /// let mut options = OpenOptions::default();
    /// options.create_if_missing(true).set_row_cache(Arc::clone(&rows));
    /// let db = Db::open(directory.path(), &options)?;
    /// db.put("key", "value")?;
    /// db.flush()?;
    /// db.get("key")?;
    /// assert_eq!(rows.occupancy_count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_row_cache(&mut self, cache: Arc<BlockCache>) -> &mut Self {
        self.row_cache = Some(cache);
        self
    }

    /// Returns the row cache, if there is one.
    pub(crate) fn row_cache(&self) -> Option<&Arc<BlockCache>> {
        self.row_cache.as_ref()
    }

    /// Sets the limit of the memory of memtables, which several databases may share. It takes
    /// precedence over the option `db_write_buffer_size`.
    pub fn set_write_buffer_manager(&mut self, manager: Arc<WriteBufferManager>) -> &mut Self {
        self.write_buffer_manager = Some(manager);
        self
    }

    /// Replaces the storage.
    pub(crate) fn set_storage(&mut self, storage: Arc<dyn Storage>) {
        self.storage = storage;
    }

    /// Returns the storage that holds the database's files.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Returns the database options.
    pub fn database(&self) -> &DbOptions {
        &self.database
    }

    /// Registers a compaction filter under its name, for column families whose option
    /// `compaction_filter` names it.
    pub fn add_compaction_filter(&mut self, filter: CompactionFilter) -> &mut Self {
        self.compaction_filters.push(filter);
        self
    }

    /// Sets the rate limiter of flushes and other background work, which several databases may
    /// share. It takes precedence over `rate_limiter_bytes_per_sec`.
    ///
    /// ```
    /// # fn main() -> tailwater::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let directory = directory.path();
    /// use std::sync::Arc;
    /// use tailwater::{Db, OpenOptions, RateLimiter};
    ///
    /// let limiter = Arc::new(RateLimiter::new(64 << 20)); // 64 MiB per second
    /// let mut options = OpenOptions::default();
    /// options.create_if_missing(true);
    /// options.set_rate_limiter(Arc::clone(&limiter));
    /// let db = Db::open(directory, &options)?;
    ///
    /// // The program changes the rate while the database is open.
    /// limiter.set_bytes_per_second(16 << 20);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_rate_limiter(&mut self, rate_limiter: Arc<RateLimiter>) -> &mut Self {
        self.rate_limiter = Some(rate_limiter);
        self
    }

    /// Sets the manager of tables and blob files, which several databases may share.
    pub fn set_sst_file_manager(&mut self, manager: Arc<SstFileManager>) -> &mut Self {
        self.sst_file_manager = Some(manager);
        self
    }

    /// Returns the manager of tables and blob files, if there is one.
    pub fn sst_file_manager(&self) -> Option<&Arc<SstFileManager>> {
        self.sst_file_manager.as_ref()
    }

    /// Sets the statistics object, which several databases may share. Without one, no statistics
    /// are collected.
    pub fn set_statistics(&mut self, statistics: Arc<Statistics>) -> &mut Self {
        self.statistics = Some(statistics);
        self
    }

    /// Returns the statistics object, if there is one.
    pub fn statistics(&self) -> Option<&Arc<Statistics>> {
        self.statistics.as_ref()
    }

    /// Sets the environment: the background threads, the budget of file descriptors and the clock.
    /// By default, all databases share that of the process.
    pub fn set_env(&mut self, env: Env) -> &mut Self {
        self.env = env;
        self
    }

    /// Returns the environment.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Raises the numbers of threads of the environment to what these options allow, as RocksDB
    /// does in each call that takes them, whether it opens a database for writing or not.
    pub(crate) fn allow_threads(&self) {
        if !self.inline_background {
            self.env.allow(Needs::of(&self.database));
        }
    }

    /// Sets the budget of file descriptors. Its limit bounds the number of open files, whatever
    /// `max_open_files` says, and if no descriptor is left, the database closes some files. By
    /// default it is the budget of the environment.
    pub fn set_descriptor_budget(&mut self, budget: DescriptorBudget) -> &mut Self {
        self.env = self.env.with_descriptor_budget(budget);
        self
    }

    /// Returns the budget of file descriptors.
    pub(crate) fn descriptor_budget(&self) -> &DescriptorBudget {
        self.env.descriptor_budget()
    }

    /// Sets the clock. By default, the environment's clock is used.
    pub fn set_clock(&mut self, clock: Arc<dyn Clock>) -> &mut Self {
        self.env = self.env.with_clock(clock);
        self
    }

    /// Sets whether background work runs on the thread that schedules it, before the scheduling
    /// call returns. No background threads are started then. Meant for tests that need a repeatable
    /// order of storage calls.
    pub fn set_inline_background(&mut self, inline: bool) -> &mut Self {
        self.inline_background = inline;
        self
    }

    /// Sets whether opening takes over the directories in `wal_dir`, `db_paths` and `cf_paths` that
    /// another database has claimed. Default: false; opening then fails if there is such a
    /// directory.
    ///
    /// A database claims these directories when it is opened for writing, and from then on no other
    /// database may use them. Set this to true only if the other database no longer exists, or if
    /// this database was moved or restored from a copy.
    pub fn set_adopt_directories(&mut self, adopt: bool) -> &mut Self {
        self.adopts_directories = adopt;
        self
    }

    /// Whether opening takes over directories that another database has claimed.
    pub(crate) fn adopts_directories(&self) -> bool {
        self.adopts_directories
    }

    /// Returns the warnings about options that were loaded from the database's files.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns a copy in which only these column families have options of their own.
    pub(crate) fn with_families<'a>(
        &mut self,
        families: impl Iterator<Item = (&'a str, &'a SetOptions<ColumnFamilyOptions>)>,
    ) -> Self {
        // Those of the other column families, which may be very many, are not copied.
        let others = mem::take(&mut self.families);
        let objects = mem::take(&mut self.family_objects);
        let as_set = self.as_set.as_deref_mut();
        let others_as_set = as_set.map(|as_set| mem::take(&mut as_set.families));
        let mut copy = self.clone();
        self.families = others;
        if let Some(as_set) = &mut self.as_set {
            as_set.families = others_as_set.unwrap_or_default();
        }
        for (name, options) in families {
            copy.change_column_family(name, options);
            if let Some(own) = objects.get(name) {
                copy.set_family_objects(name, own.clone());
            }
        }
        self.family_objects = objects;
        copy
    }

    /// Returns the clock.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        self.env.clock()
    }

    /// Whether background work runs on the thread that schedules it.
    pub(crate) fn inline_background(&self) -> bool {
        self.inline_background
    }

    /// Returns the options that apply to a column family, whether or not it exists.
    pub fn column_family(&self, name: &str) -> &ColumnFamilyOptions {
        let named = self.families.iter().find(|(family, _)| family == name);
        named.map_or(&self.other_families, |(_, options)| options)
    }

    /// Returns the names of the column families that have options of their own.
    pub fn column_families(&self) -> impl Iterator<Item = &str> {
        self.families.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the options that take effect when a database in `directory` is opened for writing
    /// with these options: values outside their valid range are replaced by valid ones, and
    /// defaults that depend on other options are derived from those.
    pub fn effective(&self, directory: impl AsRef<Path>) -> Self {
        self.sanitized(directory.as_ref(), false)
    }

    /// Returns a copy in which every value outside its valid range is replaced by a valid one, and
    /// defaults that depend on other options are derived from those. The copy also has the options
    /// as they were set.
    pub(crate) fn sanitized(&self, directory: &Path, read_only: bool) -> Self {
        let mut as_set = Self { as_set: None, ..self.clone() };
        as_set.unset_derived();
        let mut sanitized = as_set.clone();
        sanitize_database(&mut sanitized.database, directory);
        let families = sanitized.families.iter_mut().map(|(_, options)| options);
        for options in families.chain([&mut sanitized.other_families]) {
            sanitize_column_family(options, &sanitized.database, read_only);
        }
        // Objects are looked up by the sanitized options only.
        as_set.family_objects.clear();
        sanitized.as_set = Some(Box::new(as_set));
        sanitized
    }

    /// Resets the options that have exactly the values that would be derived for them. Options in
    /// an OPTIONS file have such values although nobody set them.
    fn unset_derived(&mut self) {
        unset_derived_of_database(&mut self.database);
        let families = self.families.iter_mut().map(|(_, options)| options);
        for options in families.chain([&mut self.other_families]) {
            unset_derived_of_family(options, &self.database);
        }
    }

    /// Returns the options as they were set, before they were sanitized.
    pub(crate) fn as_set(&self) -> &Self {
        self.as_set.as_deref().unwrap_or(self)
    }

    /// Replaces the options of one column family, in both forms.
    pub(crate) fn change_column_family(
        &mut self,
        name: &str,
        changed: &SetOptions<ColumnFamilyOptions>,
    ) {
        self.set_column_family(name, changed.effective.clone());
        if let Some(as_set) = &mut self.as_set {
            as_set.set_column_family(name, changed.set.clone());
        }
    }

    /// Replaces the database options, in both forms.
    pub(crate) fn change_database(&mut self, changed: &SetOptions<DbOptions>) {
        self.set_database(changed.effective.clone());
        if let Some(as_set) = &mut self.as_set {
            as_set.set_database(changed.set.clone());
        }
    }
}
