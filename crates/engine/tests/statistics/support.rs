//! Helpers of the tests of the statistics.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tailwater::{ColumnFamily, Db, OpenOptions, ReadOptions, Statistics, WriteOptions};
use tailwater_io::sim::SimStorage;

/// A new database on a simulated disk, with its statistics.
pub(crate) struct Counted {
    pub(crate) disk: SimStorage,
    pub(crate) db: Db,
    pub(crate) statistics: Arc<Statistics>,
}

impl Counted {
    pub(crate) fn new(text: &str) -> Self {
        Self::with(text, |_| ())
    }

    /// Opens the database. `change` sets options beyond those in `text`.
    pub(crate) fn with(text: &str, change: impl FnOnce(&mut OpenOptions)) -> Self {
        let disk = SimStorage::new(1);
        let statistics = Arc::new(Statistics::new());
        let mut options = options(&disk, text);
        options.set_statistics(Arc::clone(&statistics));
        change(&mut options);
        let db = Db::open("/db", &options).expect("a new database");
        let counted = Self { disk, db, statistics };
        counted.moved();
        counted
    }

    pub(crate) fn family(&self) -> ColumnFamily {
        self.db.cf_handle("default").expect("the default column family")
    }

    pub(crate) fn put(&self, key: &str, value: &str) {
        let (family, options) = (self.family(), WriteOptions::default());
        self.db.put_cf_opt(&family, key.as_bytes(), value.as_bytes(), &options).expect("a put");
    }

    pub(crate) fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.db.get_cf_opt(&self.family(), key.as_bytes(), &ReadOptions::default()).expect("a get")
    }

    pub(crate) fn flush(&self) {
        self.db.flush_all().expect("a flush");
    }

    pub(crate) fn property(&self, name: &str) -> String {
        let value = self.db.property_value_cf(&self.family(), name).expect("a property");
        value.unwrap_or_else(|| panic!("there is no property {name}"))
    }

    /// Returns every ticker that is not zero, named without the prefix `rocksdb.`. Then resets all
    /// statistics.
    pub(crate) fn moved(&self) -> BTreeMap<String, u64> {
        let moved = Statistics::ticker_names()
            .map(|name| (name, self.statistics.ticker(name).expect("a ticker")))
            .filter(|(_, by)| *by > 0)
            .map(|(name, by)| (name.trim_start_matches("rocksdb.").to_owned(), by));
        let moved = moved.collect();
        self.statistics.reset();
        moved
    }

    /// Returns the number and the sum of the values in a histogram since the statistics were last
    /// reset.
    pub(crate) fn measured(&self, name: &str) -> (u64, u64) {
        let data = self.statistics.histogram(&format!("rocksdb.{name}")).expect("a histogram");
        (data.count, data.sum)
    }
}

/// Returns options for a database on a simulated disk, which is created if it is missing.
/// Background work runs in the calling thread.
pub(crate) fn options(disk: &SimStorage, text: &str) -> OpenOptions {
    let mut options = OpenOptions::with_storage(Arc::new(disk.clone()));
    options.set_clock(disk.clock());
    options.set_inline_background(true);
    options.set_from_string("create_if_missing=true").expect("options");
    options.set_from_string(text).expect("options");
    options
}

/// Returns a map of the expected tickers, to compare with [`Counted::moved`].
pub(crate) fn tickers<const N: usize>(expected: [(&str, u64); N]) -> BTreeMap<String, u64> {
    expected.into_iter().map(|(name, by)| (name.to_owned(), by)).collect()
}

/// Returns a property of a column family.
pub(crate) fn property(db: &Db, family: &str, name: &str) -> Option<String> {
    let family = db.cf_handle(family).expect("a column family");
    db.property_value_cf(&family, name).expect("a property")
}

/// Opens a golden database read-only, with the options of its OPTIONS file.
pub(crate) fn golden(name: &str) -> (tempfile::TempDir, Db) {
    let directory = tailwater_testkit::golden::unpack(name);
    let db = open_read_only(directory.path());
    (directory, db)
}

fn open_read_only(directory: &Path) -> Db {
    let mut options = OpenOptions::load(directory).expect("an OPTIONS file");
    // The clock does not advance, so that every run reports the same times.
    options.set_clock(Arc::new(tailwater_io::clock::ManualClock::new(1)));
    Db::open_read_only(directory, &options).expect("the database")
}
