//! Helpers of the tests of the effects of options.

use std::path::Path;
use std::sync::Arc;

use tailwater::env::Env;
use tailwater::inspect::table::TableFile;
use tailwater::{
    ColumnFamily, CompactRangeOptions, Db, OpenOptions, ReadOptions, Result, Statistics,
    WriteOptions,
};
use tailwater_format::table::Properties;
use tailwater_io::sim::SimStorage;
use tailwater_io::{IoMode, Operation, Purpose, Storage};

/// The directory of every database.
pub(super) const DB: &str = "/db";

/// A database on a simulated disk, with statistics.
pub(super) struct Scene {
    pub(super) disk: SimStorage,
    pub(super) db: Db,
    pub(super) statistics: Arc<Statistics>,
}

/// Returns options for a database on `disk`. With these options, opening creates the database if it
/// is missing, and background work runs in the calling thread.
pub(super) fn options(disk: &SimStorage, text: &str) -> OpenOptions {
    let mut options = OpenOptions::with_storage(Arc::new(disk.clone()));
    options.set_env(Env::new().with_clock(disk.clock()));
    options.set_inline_background(true);
    options.set_from_string("create_if_missing=true").expect("options");
    options.set_from_string(&without_gaps(text)).expect("options");
    options
}

/// Returns an option string without empty assignments. These result when a test inserts an empty
/// text.
fn without_gaps(text: &str) -> String {
    let mut text = format!(";{text};");
    for (gap, filled) in [(";;;", ";"), (";;", ";"), ("{;", "{"), (";}", "}")] {
        text = text.replace(gap, filled);
    }
    text.replace("block_based_table_factory={}", "").trim_matches(';').replace(";;", ";")
}

/// Opens a new database on `disk` with these options.
pub(super) fn try_open(disk: &SimStorage, text: &str) -> Result<Scene> {
    try_open_with(disk, text, |_| ())
}

/// Like [`try_open`], with options that `change` changed.
pub(super) fn try_open_with(
    disk: &SimStorage,
    text: &str,
    change: impl FnOnce(&mut OpenOptions),
) -> Result<Scene> {
    let statistics = Arc::new(Statistics::new());
    let mut options = options(disk, text);
    options.set_statistics(Arc::clone(&statistics));
    change(&mut options);
    let db = Db::open(DB, &options)?;
    Ok(Scene { disk: disk.clone(), db, statistics })
}

/// Returns a new database on a new simulated disk, which records the calls to it.
pub(super) fn open(text: &str) -> Scene {
    let disk = SimStorage::new(1);
    disk.start_recording();
    try_open(&disk, text).expect("a new database")
}

impl Scene {
    /// Closes the database and reopens it with other options.
    pub(super) fn reopen(self, text: &str) -> Self {
        self.reopen_with(text, |_| ())
    }

    /// Like [`Self::reopen`], with options that `change` changed.
    pub(super) fn reopen_with(self, text: &str, change: impl FnOnce(&mut OpenOptions)) -> Self {
        let disk = self.disk.clone();
        drop(self);
        try_open_with(&disk, text, change).expect("the database again")
    }

    pub(super) fn family(&self) -> ColumnFamily {
        self.db.cf_handle("default").expect("the default column family")
    }

    pub(super) fn put(&self, key: &str, value: &str) {
        self.try_put(key, value).expect("a put");
    }

    pub(super) fn try_put(&self, key: &str, value: &str) -> Result<()> {
        let options = WriteOptions::default();
        self.db.put_cf_opt(&self.family(), key.as_bytes(), value.as_bytes(), &options)
    }

    /// Puts the keys with numbers in `from..to`, each with an incompressible value of `length`
    /// bytes.
    pub(super) fn fill(&self, from: usize, to: usize, length: usize) {
        let mut random = fastrand::Rng::with_seed(from as u64);
        for key in from..to {
            let value: String = (0..length).map(|_| random.alphanumeric()).collect();
            self.put(&format!("{key:06}"), &value);
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.db.get_cf_opt(&self.family(), key.as_bytes(), &ReadOptions::default()).expect("a get")
    }

    pub(super) fn flush(&self) {
        self.db.flush_cf(&self.family()).expect("a flush");
    }

    pub(super) fn compact(&self) {
        let all = CompactRangeOptions::default();
        self.db.compact_range_cf_opt(&self.family(), None, None, &all).expect("a compaction");
    }

    /// Returns the number of keys that an iterator over the whole database yields.
    pub(super) fn scan(&self) -> usize {
        let mut iterator = self
            .db
            .raw_iterator_cf_opt(&self.family(), &ReadOptions::default())
            .expect("an iterator");
        iterator.seek_to_first().expect("a seek");
        let mut keys = 0;
        while iterator.valid() {
            keys += 1;
            iterator.next().expect("a step");
        }
        keys
    }

    /// Returns the number of each level that has tables, paired with the count of its tables.
    pub(super) fn levels(&self) -> Vec<(usize, usize)> {
        let mut levels = std::collections::BTreeMap::new();
        for file in self.db.live_files() {
            *levels.entry(file.level).or_insert(0) += 1;
        }
        levels.into_iter().collect()
    }

    pub(super) fn level_0(&self) -> usize {
        self.db.live_files().iter().filter(|file| file.level == 0).count()
    }

    /// Returns the lengths of all tables, in bytes.
    pub(super) fn sizes(&self) -> Vec<u64> {
        self.db.live_files().iter().map(|file| file.size).collect()
    }

    /// Returns the first of the live tables.
    pub(super) fn table(&self) -> TableFile {
        let file = self.db.live_files().into_iter().next().expect("a table");
        TableFile::open(&self.disk, &file.path).expect("a table that can be opened")
    }

    /// Returns the properties of the first of the live tables.
    pub(super) fn properties(&self) -> Properties {
        self.table().properties().as_ref().expect("properties").clone()
    }

    pub(super) fn property(&self, name: &str) -> String {
        let value = self.db.property_value_cf(&self.family(), name).expect("a property");
        value.unwrap_or_else(|| panic!("there is no property {name}"))
    }

    pub(super) fn ticker(&self, name: &str) -> u64 {
        self.statistics.ticker(name).expect("a ticker")
    }

    /// Returns how many calls of this operation for this purpose the disk has recorded.
    pub(super) fn calls(&self, operation: Operation, purpose: Purpose) -> usize {
        let calls = self.disk.calls();
        let counted = calls
            .iter()
            .filter(|call| (call.operation, call.purpose) == (operation, Some(purpose)));
        counted.count()
    }

    /// Returns the names of files in the database's directory. Includes only names that contain
    /// `part`.
    pub(super) fn names(&self, part: &str) -> Vec<String> {
        names_in(&self.disk, DB, part)
    }

    /// Returns the text of the LOG.
    pub(super) fn log(&self) -> String {
        log(&self.disk)
    }
}

/// Returns the names of files in a directory. Includes only names that contain `part`.
pub(super) fn names_in(disk: &SimStorage, directory: &str, part: &str) -> Vec<String> {
    let entries = disk.list(directory.as_ref()).unwrap_or_default();
    let names = entries.into_iter().map(|entry| entry.name);
    names.filter(|name| name.contains(part)).collect()
}

/// Returns the text of the LOG of the database on `disk`.
pub(super) fn log(disk: &SimStorage) -> String {
    String::from_utf8(read(disk, &Path::new(DB).join("LOG"))).expect("text")
}

/// Returns the contents of a file.
pub(super) fn read(disk: &SimStorage, path: &Path) -> Vec<u8> {
    let file = disk.open(path, IoMode::Buffered, Purpose::Metadata).expect("a file");
    let mut bytes = vec![0; file.length().expect("a length") as usize];
    file.read_full_at(&mut bytes, 0, Purpose::Metadata).expect("a read");
    bytes
}
