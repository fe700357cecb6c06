//! What these tests share.

use std::path::Path;
use std::sync::Arc;

use tailwater::verify::{Finding, Severity, verify};
use tailwater::{
    ColumnFamily, Db, ErrorKind, OpenOptions, ReadOptions, Result, SstFileWriter, WriteOptions,
};
use tailwater_io::Storage;
use tailwater_io::sim::SimStorage;

/// Options that make a database where there is none.
pub(crate) fn options(text: &str) -> OpenOptions {
    with_storage(OpenOptions::default(), text)
}

/// The same on a simulated disk, with no thread in the background.
pub(crate) fn simulated(disk: &SimStorage, text: &str) -> OpenOptions {
    let mut options = OpenOptions::new(Arc::new(disk.clone()));
    options.set_clock(disk.clock());
    options.set_inline_background(true);
    with_storage(options, text)
}

fn with_storage(mut options: OpenOptions, text: &str) -> OpenOptions {
    options.set_options("create_if_missing=true").expect("options");
    options.set_options(text).expect("options");
    options
}

/// How a write behaves that waits for the device.
pub(crate) fn synced() -> WriteOptions {
    WriteOptions { sync: true, ..WriteOptions::default() }
}

/// How a write behaves that no log holds.
pub(crate) fn unlogged() -> WriteOptions {
    WriteOptions { disable_wal: true, ..WriteOptions::default() }
}

/// The default column family.
pub(crate) fn default_family(db: &Db) -> ColumnFamily {
    db.column_family("default").expect("the default column family")
}

/// Puts a value into the default column family.
pub(crate) fn put(db: &Db, key: &str, value: &str) -> Result<()> {
    db.put(&default_family(db), key.as_bytes(), value.as_bytes(), &WriteOptions::default())
}

/// A value of the default column family.
pub(crate) fn get(db: &Db, key: &str) -> Option<String> {
    get_from(db, &default_family(db), key)
}

/// A value.
pub(crate) fn get_from(db: &Db, family: &ColumnFamily, key: &str) -> Option<String> {
    let value = db.get(family, key.as_bytes(), &ReadOptions::default()).expect("a get");
    value.map(|value| String::from_utf8(value).expect("text"))
}

/// A property of the default column family.
pub(crate) fn property(db: &Db, name: &str) -> String {
    let value = db.property(&default_family(db), name).expect("a property");
    value.unwrap_or_else(|| panic!("there is no property {name}"))
}

/// How many tables there are in level 0.
pub(crate) fn level_0(db: &Db) -> usize {
    property(db, "rocksdb.num-files-at-level0").parse().expect("a number")
}

/// What verification finds but notes.
pub(crate) fn findings(path: &Path, options: &OpenOptions) -> Vec<Finding> {
    let report = verify(path, options, &mut |_| {});
    let findings = report.findings.into_iter();
    findings.filter(|finding| finding.severity > Severity::Note).collect()
}

/// Makes a file of puts outside a database.
pub(crate) fn make_file(options: &OpenOptions, path: &Path, keys: &[&str], value: &str) {
    let mut writer = SstFileWriter::new(options, "default").expect("a writer");
    writer.open(path).expect("a file");
    for key in keys {
        writer.put(key.as_bytes(), value.as_bytes()).expect("a put");
    }
    writer.finish().expect("a whole file");
}

/// The names in a directory.
pub(crate) fn names(storage: &dyn Storage, directory: &Path) -> Vec<String> {
    let entries = storage.list(directory).expect("a directory");
    entries.into_iter().map(|entry| entry.name).collect()
}

/// The kind and text of an error.
pub(crate) fn told<T>(result: Result<T>) -> (ErrorKind, String) {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => (error.kind(), error.to_string()),
    }
}
