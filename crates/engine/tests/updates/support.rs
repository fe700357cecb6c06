//! What these tests share.

use std::path::Path;
use std::sync::Arc;

use tailwater::{ColumnFamily, Db, Error, ErrorKind, OpenOptions, Updates, WriteOptions};
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage};

pub(crate) const PATH: &str = "/db";

/// Opens a database on a simulated disk, with no thread in the background.
pub(crate) fn open(disk: &SimStorage, text: &str) -> Db {
    let mut options = OpenOptions::new(Arc::new(disk.clone()));
    options.set_clock(disk.clock());
    options.set_inline_background(true);
    options.set_options("create_if_missing=true").expect("options");
    options.set_options(text).expect("options");
    Db::open(PATH.as_ref(), &options).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(crate) fn default_family(db: &Db) -> ColumnFamily {
    db.column_family("default").expect("the default column family")
}

/// Puts a key, whose value is the same.
pub(crate) fn put(db: &Db, key: &str) {
    put_with(db, key, &WriteOptions::default());
}

pub(crate) fn put_with(db: &Db, key: &str, options: &WriteOptions) {
    db.put(&default_family(db), key.as_bytes(), key.as_bytes(), options).expect("a put");
}

/// The keys of the batches up to where there is nothing yet, or up to an error.
pub(crate) fn keys(updates: &mut Updates) -> Result<Vec<String>, Error> {
    let mut keys = Vec::new();
    for batch in updates {
        for record in batch?.reader().expect("a batch") {
            let key = record.expect("a record").key.to_vec();
            keys.push(String::from_utf8(key).expect("text"));
        }
    }
    Ok(keys)
}

/// Asserts which keys come, up to where there is nothing yet.
#[track_caller]
pub(crate) fn expect_keys(updates: &mut Updates, expected: &[&str]) {
    assert_eq!(keys(updates).expect("batches"), expected);
}

/// The kind and text of an error.
pub(crate) fn told<T>(result: Result<T, Error>) -> (ErrorKind, String) {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => (error.kind(), error.to_string()),
    }
}

/// The names of the logs, oldest first.
pub(crate) fn logs(disk: &SimStorage) -> Vec<String> {
    let entries = disk.list(PATH.as_ref()).expect("a directory").into_iter();
    entries.map(|entry| entry.name).filter(|name| name.ends_with(".log")).collect()
}

/// Does something to a log from outside.
pub(crate) fn meddle(
    disk: &SimStorage,
    log: &str,
    meddle: impl FnOnce(&mut dyn tailwater_io::WriteFile),
) {
    let path = Path::new(PATH).join(log);
    let file = disk.create(&path, Create::Existing, IoMode::Buffered, Purpose::Wal);
    meddle(&mut *file.expect("the log"));
}
