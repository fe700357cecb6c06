//! The databases that are read.

use std::path::PathBuf;

use tailwater_latency::entries::{KEY_BYTES, Values, key};
use tailwater_latency::files::{Temporary, all_below};
use tailwater_latency::memory_limit::evict_files;
use tailwater_latency::say;

use super::arguments::{ColdArguments, Mode};
use super::subject::{ColdEngine, Reading};
use super::{keys, levels};
use crate::store::{Failure, Store};

/// Options of all databases. Indexes and filters are outside the block cache, which is small.
const OPTIONS: &str = "create_if_missing=true;max_background_jobs=2;max_open_files=-1;\
    write_buffer_size=67108864;block_based_table_factory={block_cache=8388608;\
    filter_policy=bloomfilter:10:false}";
/// Additional options while a database is read, so that no compaction begins when it is opened.
const READING: &str = "disable_auto_compactions=true";
/// Extension of table files.
const TABLE_EXTENSION: &str = "sst";
/// If more pages of a database than this are still in the page cache after the eviction, a warning
/// is printed. 256 pages are 1 MiB.
const RESIDENT_PAGES_MAX: u64 = 256;

/// What a database contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// The entries of `basket`, in the last level.
    Basket,
    /// Values of 4 KiB that are not compressed, in the last level.
    LargeValues,
    /// The entries of `basket`, in six levels.
    Levels,
}

impl Content {
    /// Returns the length of values, in bytes.
    pub(super) fn value_bytes(self) -> usize {
        match self {
            Self::Basket | Self::Levels => 100,
            Self::LargeValues => 4096,
        }
    }

    /// Returns the number of keys of a database with `gigabytes` GB of keys and values.
    pub(super) fn keys(self, gigabytes: f64) -> u64 {
        (gigabytes * 1e9) as u64 / (KEY_BYTES + self.value_bytes()) as u64
    }

    /// Returns what the databases contain, for a title.
    pub(super) fn describe(self) -> String {
        let bytes = self.value_bytes();
        match self {
            Self::Basket | Self::Levels => format!("values of {bytes} bytes, LZ4"),
            Self::LargeValues => format!("values of {bytes} bytes, not compressed"),
        }
    }

    fn options(self) -> &'static str {
        match self {
            Self::Basket => "compression=kLZ4Compression",
            Self::LargeValues => "compression=kNoCompression",
            Self::Levels => {
                "compression=kLZ4Compression;disable_auto_compactions=true;\
                 level_compaction_dynamic_level_bytes=false"
            }
        }
    }

    pub(super) fn values(self) -> Values {
        match self {
            Self::Basket | Self::Levels => Values::new(self.value_bytes(), 1),
            Self::LargeValues => Values::random(self.value_bytes(), 1),
        }
    }
}

/// The databases of all engines, with the same entries. They are removed when the value is dropped.
pub(super) struct Databases<'e> {
    pub(super) content: Content,
    /// Number of keys in each database.
    pub(super) keys: u64,
    pub(super) of_engines: Vec<Database<'e>>,
}

/// The database of an engine.
pub(super) struct Database<'e> {
    pub(super) engine: &'e ColdEngine,
    directory: Temporary,
    options: String,
    keys: u64,
}

impl<'e> Databases<'e> {
    /// Creates a database for each engine.
    pub(super) fn fill(
        arguments: &ColdArguments,
        engines: &[&'e ColdEngine],
        content: Content,
    ) -> Result<Self, Failure> {
        let keys = content.keys(arguments.gigabytes);
        let subjects = &arguments.subjects;
        let options = subjects.options_over(&format!("{OPTIONS};{}", content.options()));
        let mut of_engines = Vec::new();
        for &engine in engines {
            say!("{}: writing {keys} entries with {}", engine.name, content.describe());
            let options = options.clone();
            let database = Database { engine, directory: subjects.new_directory()?, options, keys };
            let filled = database.fill(content);
            filled.map_err(|error| format!("{}: {error}", engine.name))?;
            of_engines.push(database);
        }
        Ok(Self { content, keys, of_engines })
    }

    /// Returns the table files of the first engine, which raw reads read.
    pub(super) fn raw_files(&self) -> Result<Vec<PathBuf>, Failure> {
        self.of_engines.first().map_or_else(|| Ok(Vec::new()), Database::table_files)
    }

    /// Evicts the databases from the page cache.
    pub(super) fn evict(&self) -> Result<(), Failure> {
        self.of_engines.iter().try_for_each(Database::evict)
    }
}

impl Database<'_> {
    fn fill(&self, content: Content) -> Result<(), Failure> {
        let store = (self.engine.open)(self.directory.path(), &self.options, Reading::default())?;
        let values = content.values();
        if content == Content::Levels {
            return levels::fill(&*store, self.directory.path(), &self.options, self.keys, &values);
        }
        store.put_all(&mut (0..self.keys).map(|number| (key(number), values.get(number))))?;
        store.settle()?;
        store.compact()?;
        store.settle()
    }

    /// Opens the database, to read it in a mode and with options of reads.
    pub(super) fn open(&self, mode: Mode, reading: Reading) -> Result<Box<dyn Store>, Failure> {
        let options = format!("{};{READING};{}", self.options, mode.options());
        let options = options.replace(";;", ";");
        (self.engine.open)(self.directory.path(), &options, reading)
    }

    /// Opens the database. Its indexes and filters are then in memory, and its blocks are not.
    pub(super) fn open_cold(
        &self,
        mode: Mode,
        reading: Reading,
    ) -> Result<Box<dyn Store>, Failure> {
        let store = self.open(mode, reading)?;
        for number in keys::warming(self.keys) {
            if store.get(&key(number))?.is_none() {
                return Err(format!("key {number} has no value").into());
            }
        }
        self.evict()?;
        Ok(store)
    }

    fn evict(&self) -> Result<(), Failure> {
        match evict_files(&[self.directory.path()])? {
            Some(pages) if pages > RESIDENT_PAGES_MAX => {
                say!("{}: {pages} pages could not be evicted", self.engine.name);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the paths of the database's tables.
    pub(super) fn table_files(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut files = all_below(self.directory.path())?;
        files.retain(|path| path.extension().is_some_and(|extension| extension == TABLE_EXTENSION));
        files.sort();
        Ok(files)
    }

    /// Returns the total length of the database's tables, in bytes.
    pub(super) fn table_bytes(&self) -> Result<u64, Failure> {
        let mut bytes = 0;
        for path in self.table_files()? {
            bytes += path.metadata()?.len();
        }
        Ok(bytes)
    }
}
