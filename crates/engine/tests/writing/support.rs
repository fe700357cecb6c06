//! Helpers of the tests in this folder.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use tailwater::inspect::table::{Entry, TableFile};
use tailwater::verify::{Finding, Severity, verify};
use tailwater::{ColumnFamily, Db, OpenOptions, ReadOptions, Result, SstFileWriter, WriteOptions};
use tailwater_format::key::ValueType;
use tailwater_io::sim::SimStorage;
use tailwater_io::{IoMode, Purpose, Storage, thread};

pub(crate) use crate::database::{
    default_family, failure, logs, names, options, simulated, synced, unlogged,
};

/// Maximum time to wait for something that must happen. A test that waits longer fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Performs `call` in a thread of its own and returns its result. Fails if the call hangs; `what`
/// names it in the message.
pub(crate) fn returns<T: Send + 'static>(
    what: &str,
    call: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (ended, has_ended) = channel();
    let thread = thread::spawn("call", move || drop(ended.send(call()))).expect("a thread");
    match has_ended.recv_timeout(PATIENCE) {
        Ok(result) => result,
        Err(RecvTimeoutError::Disconnected) => panic!("{what} panicked"),
        Err(RecvTimeoutError::Timeout) => {
            // Dropping the thread would wait for it.
            std::mem::forget(thread);
            panic!("{what} hangs")
        }
    }
}

/// Waits until `is_so` returns true. Fails if it never does; `what` names it in the message.
pub(crate) fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Puts a value into the default column family.
pub(crate) fn put(db: &Db, key: &str, value: &str) -> Result<()> {
    db.put_cf_opt(&default_family(db), key.as_bytes(), value.as_bytes(), &WriteOptions::default())
}

/// Returns a value from the default column family.
pub(crate) fn get(db: &Db, key: &str) -> Option<String> {
    get_from(db, &default_family(db), key)
}

/// Returns a value from a column family.
pub(crate) fn get_from(db: &Db, family: &ColumnFamily, key: &str) -> Option<String> {
    let value = db.get_cf_opt(family, key.as_bytes(), &ReadOptions::default()).expect("a get");
    value.map(|value| String::from_utf8(value).expect("text"))
}

/// Creates a column family with the options of the default one.
pub(crate) fn create_family(db: &Db, name: &str) -> ColumnFamily {
    db.create_cf(name, &default_family(db).options()).expect("a column family")
}

/// Returns a property of the default column family.
pub(crate) fn property(db: &Db, name: &str) -> String {
    property_of(db, &default_family(db), name)
}

/// Returns a property of a column family.
pub(crate) fn property_of(db: &Db, family: &ColumnFamily, name: &str) -> String {
    let value = db.property_value_cf(family, name).expect("a property");
    value.unwrap_or_else(|| panic!("there is no property {name}"))
}

/// Returns the number of tables in level 0 of the default column family.
pub(crate) fn level_0(db: &Db) -> usize {
    level_0_of(db, &default_family(db))
}

/// Returns the number of tables in level 0 of a column family.
pub(crate) fn level_0_of(db: &Db, family: &ColumnFamily) -> usize {
    property_of(db, family, "rocksdb.num-files-at-level0").parse().expect("a number")
}

/// A record in a table: its key, sequence number, type and value.
pub(crate) type Stored = (String, u64, ValueType, Vec<u8>);

/// Returns the records in a database's tables. The tables are in the order of [`Db::live_files`].
/// In each table, the range deletions follow the other records; their value is the exclusive end of
/// the range.
pub(crate) fn stored(storage: &dyn Storage, db: &Db) -> Vec<Stored> {
    let mut stored = Vec::new();
    for file in db.live_files() {
        let table = TableFile::open(storage, &file.path).expect("a table");
        let mut take = |entry: &Entry<'_>| {
            let key = String::from_utf8_lossy(entry.user_key).into_owned();
            let value_type = entry.value_type().expect("a known type");
            stored.push((key, entry.sequence, value_type, entry.value.to_vec()));
            Ok(())
        };
        for block in table.index().expect("an index").entries {
            let report = table.data_block(block.handle).expect("a block");
            report.contents.expect("entries").for_each(&mut take).expect("whole entries");
        }
        table.range_tombstones(&mut take).expect("range tombstones");
    }
    stored
}

/// Returns what verification finds in a database, except findings of severity [`Severity::Note`].
pub(crate) fn findings(path: &Path, options: &OpenOptions) -> Vec<Finding> {
    let report = verify(path, options);
    let findings = report.findings.into_iter();
    findings.filter(|finding| finding.severity > Severity::Note).collect()
}

/// Creates a table file to ingest, which puts `value` for each of the keys.
pub(crate) fn make_file(options: &OpenOptions, path: &Path, keys: &[&str], value: &str) {
    let mut writer = SstFileWriter::new(options, "default").expect("a writer");
    writer.open(path).expect("a file");
    for key in keys {
        writer.put(key.as_bytes(), value.as_bytes()).expect("a put");
    }
    writer.finish().expect("a whole file");
}

/// Returns the contents of a database's LOG.
pub(crate) fn log(disk: &SimStorage, directory: &str) -> String {
    let path = Path::new(directory).join("LOG");
    let file = disk.open(&path, IoMode::Buffered, Purpose::Metadata).expect("a LOG");
    let mut bytes = vec![0; file.length().expect("a length") as usize];
    file.read_full_at(&mut bytes, 0, Purpose::Metadata).expect("a read");
    String::from_utf8(bytes).expect("text")
}
